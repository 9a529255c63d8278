package pygent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

// ordinarySurvey is what package project adds in a small project.
func ordinarySurvey(info pygent.PromptInfo) pygent.PromptInfo {
	info.Runtime.Notes = []string{
		"The system is Debian GNU/Linux 12 (bookworm)",
		"Programs: git, python3, pip, go, make, gcc, curl, patch; not there: uv, node, npm, cargo, java, cmake, rg, wget, jq, unzip, sqlite3, docker",
	}
	info.Sections = []pygent.PromptSection{{Title: "What the workspace holds", Text: "A git repository, on branch main: 12 files changed.\nAs it was at the start, directories with the number of their entries:\n<workspace_files>\n" +
		strings.Repeat("a_file_name.go\n", 25) + "</workspace_files>", Tool: "*"}}
	return info
}

func TestPrefixOfEveryKindOfRuntimeIsSmall(t *testing.T) {
	t.Parallel()
	specs := slicesOf(shownToolsOn(t, struct {
		silentJobs
		pygent.TaskRuntimeMaker
	}{TaskRuntimeMaker: hollow{}}, pygent.TaskPersonas(pygent.Persona{Name: "Ada"}, pygent.Persona{Name: "Reviewer"}, pygent.Persona{Name: "Tester"})))
	tools := testkit.ToolsSize(t, specs)
	for name, rt := range map[string]pygent.RuntimeInfo{
		"docker":           {Kind: "docker", Image: "python:3.12-slim", Workspace: "/workspace", Shell: "bash"},
		"docker, sh":       {Kind: "docker", Image: "python:3.12-slim", Workspace: "/workspace", Shell: "sh"},
		"docker, hosts":    {Kind: "docker", Image: "python:3.12-slim", Workspace: "/workspace", Shell: "bash", AllowedHosts: []string{"pypi.org", "files.pythonhosted.org"}, AsksHosts: true},
		"local, full":      {Kind: "local", Workspace: "/home/somebody/projects/program", Shell: "bash", Network: true, Protection: "full"},
		"local, files":     {Kind: "local", Workspace: "/home/somebody/projects/program", Shell: "bash", Network: true, Protection: "files"},
		"local, none":      {Kind: "local", Workspace: "/home/somebody/projects/program", Shell: "bash", Network: true, Protection: "none"},
		"local, temporary": {Kind: "local", Workspace: "/tmp/pygent-1", Temporary: true, Shell: "bash", Network: true, Protection: "full"},
	} {
		prompt := pygent.DefaultPrompt(ordinarySurvey(pygent.PromptInfo{Runtime: rt, Tools: specs, MaxSteps: 100}))
		t.Logf("%s: %d bytes of prompt and %d of tools", name, len(prompt), tools)
		require.LessOrEqual(t, len(prompt)+tools, testkit.MaxPrefix, "%s:\n%s", name, prompt)
	}
}

func slicesOf(specs map[string]chat.ToolSpec) (all []chat.ToolSpec) {
	for _, spec := range specs {
		all = append(all, spec)
	}
	return all
}

// systemsOf returns the system messages that a model was given, one a request.
func systemsOf(model *pygenttest.ScriptedModel) (all []string) {
	for _, req := range model.Requests() {
		all = append(all, req.Messages[0].Content)
	}
	return all
}

func TestTheModelIsToldHowManyStepsThereAre(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		agent        []pygent.Option
		run          []pygent.RunOption
		system, note string
	}{
		{"by default", nil, nil, "a run ends after 20 of your answers", ""},
		{"of the agent", []pygent.Option{pygent.MaxSteps(50)}, nil, "a run ends after 50 of your answers", ""},
		{"of the run", nil, []pygent.RunOption{pygent.MaxSteps(50)}, "a run ends after 20 of your answers", "\n[This run ends after 50 of your answers.]"},
		{"few", nil, []pygent.RunOption{pygent.MaxSteps(3)}, "a run ends after 20 of your answers", "\n[2 more steps"},
		{"without an end", nil, []pygent.RunOption{pygent.MaxSteps(pygent.NoLimit)}, "a run ends after 20 of your answers", "\n[This run may take as many answers as it needs.]"},
		{"never any", []pygent.Option{pygent.MaxSteps(pygent.NoLimit)}, nil, "# How to work", ""},
	}
	for _, test := range tests {
		model := pygenttest.NewScriptedModel(pygenttest.Calls(callBash("a"), callBash("b")), callBash("c"), pygenttest.Call("stop", nil))
		agent := newAgentOn(t, hollow{}, model, test.agent...)
		_, err := agent.RunUntilStop(t.Context(), "go", test.run...)
		require.NoError(t, err)
		messages := agent.History().Messages()
		require.Contains(t, messages[0].Content, test.system, test.name)
		require.NotContains(t, messages[3].Content, "[", test.name)
		if test.note == "" {
			require.NotContains(t, messages[4].Content, "[", test.name)
			require.NotContains(t, messages[6].Content, "[", test.name)
		} else {
			require.Contains(t, messages[4].Content, test.note, test.name)
			require.NotContains(t, messages[6].Content, "This run", test.name)
		}
		for _, system := range systemsOf(model) {
			require.Equal(t, messages[0].Content, system)
		}
	}
}

func TestThePromptHasTheDayAndNotTheTime(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgentOn(t, nowhere{}, model)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Regexp(t, `\n- Today is \d{4}-\d\d-\d\d\.\n`, agent.History().Messages()[0].Text())
	require.NotRegexp(t, `\d\d:\d\d`, agent.History().Messages()[0].Text())
}
