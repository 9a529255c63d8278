package commands_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is an agent with the commands, on the local runtime.
func session(t *testing.T, replies ...pygenttest.Reply) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(
		project.Read(),
		pygent.WithDocker(pygent.DockerNever),
		pygent.WithModel(pygenttest.NewScriptedModel(replies...)),
		pygent.WithCommands(commands.All()...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	return agent
}

// says runs a line that must succeed, and returns what it writes.
func says(t *testing.T, agent *pygent.Agent, line string) string {
	t.Helper()
	result, err := agent.RunCommand(t.Context(), line, nil)
	require.NoError(t, err, line)
	return result.Output
}

func fails(t *testing.T, agent *pygent.Agent, line, want string) {
	t.Helper()
	_, err := agent.RunCommand(t.Context(), line, nil)
	require.ErrorContains(t, err, want, line)
}

func TestCommandsRunInTheWorkspace(t *testing.T) {
	agent := session(t)
	require.Equal(t, "one two\n", says(t, agent, "/cmd echo 'one two' | tee said"))
	data, err := agent.Runtime().ReadFile(t.Context(), "said")
	require.NoError(t, err)
	require.Equal(t, "one two\n", string(data))
	result, err := agent.RunCommand(t.Context(), "/cmd printf partly; exit 3", nil)
	require.ErrorContains(t, err, "exit code 3")
	require.Equal(t, "partly\n", result.Output)
	fails(t, agent, "/cmd", "no command given")
	require.Zero(t, agent.History().Len(), "the model does not hear of it")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = agent.RunCommand(ctx, "/cmd sleep 600", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFilesGoInAndOut(t *testing.T) {
	agent := session(t)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a file.txt"), []byte("x"), 0o600))
	says(t, agent, `/cp "~/a file.txt" in/b.txt`)
	require.Equal(t, "x\n", says(t, agent, "/cmd cat in/b.txt"))
	says(t, agent, "/export in "+filepath.Join(dir, "out"))
	data, err := os.ReadFile(filepath.Join(dir, "out", "b.txt"))
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	note := filepath.Join(dir, "note")
	require.Equal(t, "copied in/b.txt of the workspace to "+note+"\n", says(t, agent, "/export in/b.txt "+note))
	fails(t, agent, "/cp", "/cp SRC [DEST]")
	fails(t, agent, "/cp a b c", "quote names with spaces")
	fails(t, agent, `/cp "a`, "not closed")
	fails(t, agent, "/cp nothing-there", "nothing-there")
	fails(t, agent, `/cp "~/a file.txt" /outside`, "use /export PATH DEST")
	fails(t, agent, "/export in", "/export PATH DEST")
}

func TestCopiesReplaceNoFileUnasked(t *testing.T) {
	agent := session(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"f": "theirs", "tree/f": "theirs", "tree/sub/g": "theirs"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	says(t, agent, "/cmd mkdir -p in/sub; printf mine >f; printf mine >in/f; printf mine >in/sub/g; printf mine >in/h")
	ours := func() string { return says(t, agent, "/cmd for f in f in/f in/sub/g in/h; do cat $f; echo; done") }
	for line, named := range map[string]string{
		"/cp DIR/f":             "copied: f already",
		"/cp DIR/f f":           "copied: f already",
		"/cp DIR/f in":          "copied: in/f already",
		"/cp DIR/f ./in/f":      "copied: in/f already",
		"/cp DIR/tree in":       "copied: in/f, in/sub/g already",
		"/export f DIR":         "copied: DIR/f already",
		"/export in/f DIR/f":    "copied: DIR/f already",
		"/export ./in DIR/tree": "copied: DIR/tree/f, DIR/tree/sub/g already",
	} {
		at := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
		fails(t, agent, at(line), at(named)+" exists; --force")
		require.Equal(t, "mine\nmine\nmine\nmine\n", ours(), line)
	}
	data, err := os.ReadFile(filepath.Join(dir, "tree", "f"))
	require.NoError(t, err)
	require.Equal(t, "theirs", string(data))
	says(t, agent, "/cp --force "+dir+"/tree in")
	require.Equal(t, "mine\ntheirs\ntheirs\nmine\n", ours())
	says(t, agent, "/export f "+dir+"/tree --force")
	says(t, agent, "/cp "+dir+"/tree new")
	require.Equal(t, "minetheirs", strings.ReplaceAll(says(t, agent, "/cmd cat new/f new/sub/g"), "\n", ""))
}

func TestSettingsAreShownAndChanged(t *testing.T) {
	agent := session(t)
	require.Equal(t, "model: the model's default\n", says(t, agent, "/model"))
	client, err := openai.New(openai.Key("k"), openai.DefaultModel("small/one"))
	require.NoError(t, err)
	require.NoError(t, agent.SetModel(client, ""))
	require.Equal(t, "model: small/one\n", says(t, agent, "/model"))
	require.Equal(t, "model: other/model\n", says(t, agent, "/model other/model"))
	require.Equal(t, "commands run without asking\n", says(t, agent, "/confirm-bash"))
	require.Equal(t, "pygent asks before each command\n", says(t, agent, "/confirm-bash on"))
	require.True(t, agent.State().Settings.Confirm)
	require.Equal(t, "commands run without asking\n", says(t, agent, "/confirm-bash off"))
	fails(t, agent, "/confirm-bash maybe", "use on or off")

	listing := says(t, agent, "/tools")
	require.Equal(t, listing, says(t, agent, "/tools list"))
	require.Regexp(t, `(?m)^  delegate_persona_task +\(not offered to the model: there are no personas to delegate to; task_personas `, listing)
	require.Regexp(t, `(?m)^  read_skill +\(not offered to the model: there are no skills; add one as a SKILL.md below `, listing)
	require.Contains(t, listing, "\n  write_file ")
	require.Contains(t, listing, "and return its output and exit code.\n", "the first sentence is enough")
	require.Equal(t, "disabled: write_file, bash\n", says(t, agent, "/tools disable write_file bash"))
	listed := says(t, agent, "/tools list")
	require.Regexp(t, `(?m)^  write_file +\(disabled; /tools enable write_file\)$`, listed)
	require.NotContains(t, agent.State().Settings.Tools, "bash")
	says(t, agent, "/tools enable bash")
	require.Contains(t, agent.State().Settings.Tools, "bash")
	fails(t, agent, "/tools disable bsh", "no tool bsh, did you mean bash? /tools lists them")
	fails(t, agent, "/tools disable nothing_like_it", "no tool nothing_like_it; /tools lists them")
	fails(t, agent, "/tools enable bsh", "no tool bsh")
	fails(t, agent, "/tools swap bash", "/tools [list|enable|disable NAME…]")
	fails(t, agent, "/tools enable", "/tools [list|enable|disable NAME…]")
}

// listed is a client of a server that answers the question for its models.
func listed(t *testing.T, answer http.HandlerFunc) *openai.Model {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := openai.New(openai.Key("k"), openai.BaseURL(server.URL+"/v1"), openai.DefaultModel("small"))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestNamesOfModelsAreCheckedAgainstTheServersList(t *testing.T) {
	agent := session(t)
	var asked atomic.Int32
	require.NoError(t, agent.SetModel(listed(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-5"},{"id":"gpt-5-mini"},{"id":"llama3:latest"},{"id":""},7]}`)
	}), ""))
	require.Equal(t, "model: gpt-5\n", says(t, agent, "/model gpt-5"))
	require.Equal(t, "model: llama3\n", says(t, agent, "/model llama3"))
	require.Equal(t, "model: small\n", says(t, agent, "/model small"), "the default is known")
	require.Equal(t, "model: gpt-6\n! the server does not list this model. Did you mean gpt-5?\n", says(t, agent, "/model gpt-6"))
	require.Equal(t, "model: quite-another\n! the server does not list this model. Press Tab after /model to see those it lists.\n", says(t, agent, "/model quite-another"))
	require.Equal(t, "quite-another", agent.State().Settings.Model, "servers know names that they do not list")
	fails(t, agent, "/model two words", "/model [NAME]")
	list, err := agent.CompleteCommand(t.Context(), "/model gpt-5")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.EqualValues(t, 1, asked.Load(), "the list is kept")
}

func TestNamesOfModelsAreTakenWhereNoListIsKnown(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no list":    http.NotFound,
		"an odd one": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1]`) },
		"no answer":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			agent := session(t)
			require.NoError(t, agent.SetModel(listed(t, answer), ""))
			require.Equal(t, "model: whatever\n", says(t, agent, "/model whatever"))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			names, known := agent.ModelNames(ctx)
			require.False(t, known)
			require.Contains(t, names, "whatever")
		})
	}
}

func TestChangesOfFilesAreShown(t *testing.T) {
	write := func(path, content string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
	}
	agent := session(t,
		write("a.txt", "one\ntwo\n"),
		write("a.txt", "one\n2\n"),
		write("dir/b.txt", "b\n"),
		write("c.txt", "c\n"),
		pygenttest.Call("stop", nil))
	require.Contains(t, says(t, agent, "/diff"), "have not changed any file;")
	require.Contains(t, says(t, agent, "/diff dir"), "have not changed any file at dir;")
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	all := says(t, agent, "/diff")
	require.Equal(t, 1, strings.Count(all, "a.txt"), all)
	require.Contains(t, all, "created a.txt\n")
	require.Contains(t, all, "+ 2")
	require.NotContains(t, all, "two", "what was there in between is not told")
	require.Contains(t, all, "created c.txt")
	one := says(t, agent, "/diff dir")
	require.Contains(t, one, "created dir/b.txt")
	require.NotContains(t, one, "c.txt")
	require.Equal(t, all, says(t, agent, "/diff ."))
	require.Equal(t, one, says(t, agent, "/diff ./dir/"))
}

func TestNamesOfFilesMakeNoLinesOfTheirOwn(t *testing.T) {
	agent := session(t, pygenttest.Call("write_file", map[string]any{"path": "a\ncreated b", "content": "x\n"}), pygenttest.Call("stop", nil))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "created \"a\\ncreated b\"\n@@ line 1 @@\n+ x\n", says(t, agent, "/diff"))
}

func TestWorkIsListed(t *testing.T) {
	agent := session(t, pygenttest.Text("Hello.").WithUsage(pygent.Usage{PromptTokens: 1200, CompletionTokens: 5, CachedTokens: 1000}))
	require.Contains(t, says(t, agent, "/jobs"), "no background commands")
	require.Contains(t, says(t, agent, "/tasks"), "no background tasks")
	fails(t, agent, "/jobs all", "/jobs: it takes no arguments")
	fails(t, agent, "/retry", "you have not sent a message yet")
	require.Equal(t, "the model has not answered yet: no tokens used\n", says(t, agent, "/usage"))
	_, err := agent.RunUntilStop(t.Context(), "Hi.", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Contains(t, says(t, agent, "/usage"), "  (no name)  1,200 tokens in, 5 out (1,000 cached)\n  all        1,200 tokens in, 5 out (1,000 cached)\n  cost       unknown: no price is set")
	result, err := agent.RunCommand(t.Context(), "/retry", nil)
	require.NoError(t, err)
	require.Equal(t, "Hi.", result.Message.Text())
	require.NoError(t, agent.NewConversation(t.Context()))
	fails(t, agent, "/retry", "you have not sent a message yet")
}

// telling is the local runtime, whose list of jobs can fail.
type telling struct {
	pygent.Runtime
	pygent.JobRunner
	broken error
}

func (r *telling) Jobs(ctx context.Context) ([]pygent.Job, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	return r.JobRunner.Jobs(ctx)
}

func TestJobsAreListedAsTheyAreNow(t *testing.T) {
	local, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	rt := &telling{Runtime: local, JobRunner: local.(pygent.JobRunner)}
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.WithCommands(commands.All()...), pygent.WithModel(pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "while [ ! -e go ]; do sleep 0.02; done; echo gone; exit 3", "background": true}), pygenttest.Text("It runs."))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Regexp(t, `^  1  running  \S+ m?s  0 bytes  while \[`, says(t, agent, "/jobs"))

	rt.broken = errors.New("paused")
	require.Regexp(t, `(?s)^  1  running  .*\nThis is the state \S+ m?s ago\. .* read: list the commands in the background: paused\n$`, says(t, agent, "/jobs"))
	rt.broken = nil

	require.NoError(t, rt.WriteFile(t.Context(), "go", nil))
	_, err = rt.JobOutput(t.Context(), "1", 0, time.Minute)
	require.NoError(t, err)
	for !strings.HasPrefix(says(t, agent, "/jobs"), "  1  exit 3  ") { // its output ends before it does
	}
	require.Contains(t, says(t, agent, "/jobs"), "  5 bytes  while [")
	rt.broken = errors.New("paused")
	require.Contains(t, says(t, agent, "/jobs"), "  1  exit 3  ")
}

func TestJobsThatNobodyEverToldOfAreAnError(t *testing.T) {
	local, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	rt := &telling{Runtime: local, JobRunner: local.(pygent.JobRunner), broken: errors.New("paused")}
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.WithCommands(commands.All()...), pygent.WithModel(pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "true"}), pygenttest.Text("Done."))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	fails(t, agent, "/jobs", "list the commands in the background: paused")
}

func TestInitAsksForAnAgentsFile(t *testing.T) {
	agent := session(t)
	result, err := agent.RunCommand(t.Context(), "/init in French", nil)
	require.NoError(t, err)
	require.Contains(t, result.Message.Text(), "AGENTS.md")
	require.Contains(t, result.Message.Text(), "in French")
}

func TestAMisspeltCommandNamesTheNearest(t *testing.T) {
	fails(t, session(t), "/modle x", "no command /modle, did you mean /model?")
	fails(t, session(t), "/help modle", "no command /modle, did you mean /model?")
}

func TestEveryCommandIsExplained(t *testing.T) {
	agent := session(t)
	help := says(t, agent, "/help")
	for _, c := range commands.All() {
		require.Contains(t, help, "/"+c.Name)
		require.NotEmpty(t, c.Summary)
		require.Contains(t, says(t, agent, "/help "+c.Name), c.Summary)
	}
}
