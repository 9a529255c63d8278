package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// evil renames the window, clears the screen, clears it again with a C1 control,
// and reorders the text.
const evil = "\x1b]0;x\x07\x1b[2J\u009b2J\u202eevil"

// driving is what must not reach a terminal: escapes, bells, C1 controls, and
// characters that reorder text.
var driving = []string{"\x1b", "\x07", "\b", "\u009b", "\u009d", "\u202e"}

// requireTame checks that a terminal was shown the text of evil, but got none of
// its control characters.
func (x *terminal) requireTame(t *testing.T) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	text := unstyled.Replace(x.shown.String())
	require.Contains(t, text, "evil")
	for _, bad := range driving {
		require.NotContains(t, text, bad, "in %q", text)
	}
	require.NotContains(t, text, "\r")
}

// hostileServer answers every request with an error that contains evil.
func hostileServer(t *testing.T) []string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": evil, "type": evil, "code": evil}})
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=k"}
}

func TestNoEscapeReachesTheTerminal(t *testing.T) {
	t.Parallel()
	say := pygenttest.Text(evil)
	model := func(replies ...pygenttest.Reply) func(*testing.T) []string {
		return func(t *testing.T) []string { return pygenttest.NewServer(t, replies...).Env() }
	}
	none := func(*testing.T) []string { return nil }
	for _, tt := range []struct {
		name string
		env  func(*testing.T) []string
		args []string
	}{
		{"a run's summary", model(pygenttest.Call("stop", map[string]any{"summary": evil})), []string{"run", "--no-docker", "-q", "go"}},
		{"a run's question", model(pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil}})), []string{"run", "--no-docker", "-q", "go"}},
		{"a run's words and output", model(pygenttest.TextAndCalls(evil, bash("printf '\\033[2J\\233evil'; "+evil)), pygenttest.Call(evil, nil), say, say), []string{"run", "--no-docker", "go"}},
		{"a run's events", model(pygenttest.TextAndCalls(evil, bash("echo "+evil)), pygenttest.Call("stop", map[string]any{"summary": evil})), []string{"run", "--no-docker", "--json", "go"}},
		{"a server's error", hostileServer, []string{"run", "--no-docker", "go"}},
		{"a server's error in events", hostileServer, []string{"run", "--no-docker", "--json", "go"}},
		{"an unknown flag", none, []string{"--" + evil}},
		{"an unknown argument", none, []string{"version", evil}},
		{"an unknown topic", none, []string{"help", evil}},
		{"a value", none, []string{"run", "--docker", "--memory", evil, "go"}},
		{"a variable", func(*testing.T) []string { return []string{"PYGENT_MAX_STEPS=" + evil} }, []string{"run", "--no-docker", "go"}},
		{"a file's name", none, []string{"--config", evil, "--no-docker"}},
		{"an engine's address", func(*testing.T) []string { return []string{"DOCKER_HOST=tcp://" + evil, "PYGENT_USE_DOCKER=1"} }, []string{"prune"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requireTameRun(t, tt.env(t), tt.args...)
		})
	}
}

func TestNoEscapeOfAnImagesNameReachesTheTerminal(t *testing.T) {
	t.Parallel()
	dockerImage(t) // only an engine tells that there is no such image
	env := pygenttest.NewServer(t, pygenttest.Text(evil)).Env()
	requireTameRun(t, env, "run", "--docker", "--image", evil, "go")
}

// requireTameRun runs the command at a terminal, which must get nothing that
// drives it.
func requireTameRun(t *testing.T, env []string, args ...string) {
	t.Helper()
	term := startTerminal(t, command(t, env, args...))
	<-term.done
	_ = term.cmd.Wait()
	term.requireTame(t)
}

func TestNoEscapeReachesTheTerminalInAPlainSession(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.TextAndCalls(evil, bash("echo "+evil)),
		pygenttest.Call("write_file", map[string]any{"path": evil, "content": evil}),
		pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil}}),
		pygenttest.Text("").CutAfter(0), pygenttest.QuotaExceeded())
	workspace := filepath.Join(t.TempDir(), "a"+strings.ReplaceAll(evil, "/", ""))
	term := openTerminal(t, server, "--workspace", workspace)
	term.expect("> ")
	term.send("go\n")
	for range 2 {
		term.expect("why not: ")
		term.answers("y\n")
	}
	term.expect("1. ")
	term.send("/" + evil + "\n") // what is typed must not get through either
	term.expect("> ")
	term.send("/exit\n")
	require.NoError(t, term.cmd.Wait())
	<-term.done
	term.requireTame(t)
}

func TestNoEscapeReachesTheTerminalInASession(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.TextAndCalls(evil, bash("echo "+evil)),
		pygenttest.Call("write_file", map[string]any{"path": evil, "content": evil}),
		pygenttest.Call(evil, map[string]any{evil: evil}),
		pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil}}),
		pygenttest.Text(evil),
		pygenttest.Text("").CutAfter(0), pygenttest.QuotaExceeded())
	workspace := filepath.Join(t.TempDir(), "a"+strings.ReplaceAll(evil, "/", ""))
	p := sit(t, server, "--workspace", workspace, "-e", "PYGENT_PERSONA_NAME="+evil)
	p.Type("go\n")
	for _, question := range []string{"Run this on your machine?", "Change this file on your machine?"} {
		p.Await(question)
		p.answers("y")
	}
	p.Await("1. ␛]0;x␇", "Ready")
	p.reads()
	p.Paste("/" + evil) // what is typed must not get through either
	p.Await("› /")
	p.reads()
	p.Key("enter")
	p.Await("no command /", "Ready")
	p.reads()
	p.Key("enter")
	p.Until("the answer to the question", func(termtest.Screen) bool { return strings.Count(p.All(), "Done") == 1 })
	p.Type("on\n")
	p.printed("insufficient_quota")
	p.Await("Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait())
	p.requireTame()
}

// requireTame checks that the session's own control sequences are all that the
// terminal got, by what they do.
func (p *person) requireTame() {
	p.t.Helper()
	s := p.Screen()
	require.Empty(p.t, s.Title)
	require.Zero(p.t, s.Bells)
	text := p.All()
	require.Contains(p.t, text, "on this machine", "nothing has cleared the screen")
	for _, bad := range driving {
		require.NotContains(p.t, text, bad)
	}
	raw := string(p.Raw())
	for _, bad := range []string{"\x1b]", "\x1b[2J", "\x07", "\u009b", "\u009d", "\u202e"} {
		require.NotContains(p.t, raw, bad)
	}
}

func TestPruneShowsNamesAndOwners(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	stale := filepath.Join(tmp, "pygent-evil\x1b[2J")
	require.NoError(t, os.Mkdir(stale, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(stale, "owner"), []byte(evil+"/b/c/d/e"), 0o600))
	term := startTerminal(t, command(t, []string{"TMPDIR=" + tmp, "PYGENT_USE_DOCKER=0"}, "prune"))
	term.expect(asksForName)
	term.answers("\n")
	<-term.done
	_ = term.cmd.Wait()
	term.requireTame(t)
}

func TestPipedAnswersKeepTheirBytes(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": evil}))
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "-q", "go"))
	require.Equal(t, evil+"\n", got.stdout)
}
