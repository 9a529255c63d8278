package pygent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

// everySetting are options of all kinds that a setup describes.
func everySetting(t *testing.T) []pygent.Option {
	t.Helper()
	return []pygent.Option{
		pygent.WithModel(pygenttest.NewScriptedModel()),
		pygent.WithModelName("large-1"),
		pygent.WithPersona(pygent.Persona{Name: "Ada", Description: "counts"}),
		pygent.WithDisabledTools("read_image"),
		pygent.WithBannedCommands("git push"),
		pygent.WithBannedApps("curl"),
		pygent.WithApprovalFor("write_file"),
		pygent.WithConfirmBash(true),
		project.Read(project.Instructions(false), project.Survey(false), project.WorkspaceSkills(false)),
		pygent.WithContextWindow(64_000),
		pygent.WithCompaction(pygent.CompactionPolicy{At: 70, To: 30}),
		pygent.MaxSteps(7), pygent.MaxTime(90 * time.Second), pygent.MaxReplies(3), pygent.WithEndOnReply(),
		pygent.MaxTasks(2), pygent.TaskDefaults(pygent.Limits{MaxSteps: 4, MaxTime: time.Minute}),
		pygent.TaskPersonas(pygent.Persona{Name: "Bob", Description: "tests"}),
		pygent.WithDocker(pygent.DockerNever), pygent.WithImage("golang:1.26"), pygent.WithMemory(1 << 30),
		pygent.WithAllowedHosts("pypi.org"), pygent.WithLocalProtection(pygent.ProtectionAuto),
		pygent.WithEnv("TOKEN=hush-hush"),
	}
}

func TestSetupDescribesTheAgentThatItsOptionsMake(t *testing.T) {
	t.Parallel()
	a := newAgentOf(t, everySetting(t)...)
	data, err := json.Marshal(a.Setup())
	require.NoError(t, err)
	require.NotContains(t, string(data), "hush-hush")
	var read pygent.Setup
	require.NoError(t, json.Unmarshal(data, &read))
	require.Equal(t, a.Setup(), read)
	require.Equal(t, []string{"TOKEN"}, read.Env)

	opts := append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel())}, read.Options()...)
	again := newAgentOf(t, append(opts, project.Read(), pygent.WithEnv("TOKEN=hush-hush"))...)
	require.Equal(t, read, again.Setup())
	require.Equal(t, a.State().Settings, again.State().Settings)
}

func TestSetupHasNoSecret(t *testing.T) {
	t.Parallel()
	c, err := pygent.ConfigSources{NoFiles: true, Lookup: func(string) (string, bool) { return "", false }, Overrides: map[string]string{
		"OPENAI_API_KEY":           "sk-secret-1",
		"OPENAI_BASE_URL":          "https://host.invalid/secret-2/v1?key=secret-3",
		"PYGENT_OPENAI_HEADERS":    `{"X-Key":"secret-4"}`,
		"PYGENT_OPENAI_EXTRA_BODY": `{"key":"secret-5"}`,
		"PYGENT_USE_DOCKER":        "0",
		"TOKEN":                    "secret-6",
	}}.Load()
	require.NoError(t, err)
	a := newAgentOf(t, c.Options()...)
	data, err := json.Marshal(a.Setup())
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret")
	require.NotContains(t, string(data), "host.invalid")
}

func TestSetupKeepsBuiltInToolsAwayThatTheAgentDidNotHave(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel()
	few := &pygent.Registry{}
	require.NoError(t, few.Register("look", "looks", nil, func(context.Context, pygent.Runtime, map[string]any) (string, error) { return "", nil }))
	a := newAgentOf(t, pygent.WithModel(model), pygent.WithRegistry(few), pygent.WithDocker(pygent.DockerNever))
	again := newAgentOf(t, append([]pygent.Option{pygent.WithModel(model)}, a.Setup().Options()...)...)
	require.Empty(t, again.State().Settings.Tools)
	require.Error(t, again.Tools().Enable("bash"))
}

func TestSetupRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ json, want string }{
		"version":          {`{"version":2}`, "version 2 is not known here"},
		"no version":       {`{}`, "version 0"},
		"field":            {`{"version":1,"allow_all":true}`, "allow_all"},
		"field in a field": {`{"version":1,"runtime":{"container":{"privileged":true}}}`, "privileged"},
		"limit":            {`{"version":1,"limits":{"max_steps":-3}}`, "MaxSteps"},
		"unknown limit":    {`{"version":1,"limits":{"max_wishes":3}}`, "max_wishes"},
		"ban":              {`{"version":1,"banned_commands":[""]}`, "banned command"},
		"not an object":    {`[]`, "setup of an agent"},
		"deep":             {`{"version":1,"tools":` + strings.Repeat("[", 20_000), "setup of an agent"},
	} {
		t.Run(name, func(t *testing.T) {
			var s pygent.Setup
			err := s.UnmarshalJSON([]byte(c.json))
			require.ErrorContains(t, err, c.want)
			require.Equal(t, pygent.Setup{}, s)
		})
	}
}
