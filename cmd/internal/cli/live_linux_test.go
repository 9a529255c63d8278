package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// slow prints something after more than a second, and ends when the file "go" is
// there.
const slow = `echo start; sleep 1.2; printf 'bu\033[2J%sing\n' ild; until [ -e go ]; do sleep 0.05; done; echo end`

func TestASessionShowsWhatACommandPrintsWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := sit(t, pygenttest.NewServer(t, bash(slow), pygenttest.Text("Built.")), "--workspace", dir, "-e", "PYGENT_CONFIRM_BASH=0")
	p.Type("go\n")
	p.Await("  start\n  bu␛[2Jilding\n", "Running a command") // while the command waits for the file
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	p.Await(" · exit 0", "  end\n", "Built.", "Ready")
	p.leaves()
	require.Equal(t, 1, strings.Count(p.All(), "  start\n  bu␛[2Jilding\n  end\n"), "what was live is gone")
}

// A terminal that can do nothing but print gets no line that is taken back, nor any other
// control sequence.
func TestADumbTerminalGetsTheOutputOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	server := pygenttest.NewServer(t, bash(slow), pygenttest.Text("Built."))
	term := openTerminal(t, server, "--workspace", dir, "-e", "PYGENT_CONFIRM_BASH=0")
	term.expect("> ")
	term.send("go\n")
	term.expect("\n  end\nBuilt.\n> ")
	term.send("/exit\n")
	term.leaves()
	term.mu.Lock()
	defer term.mu.Unlock()
	shown := term.shown.String()
	require.Equal(t, 1, strings.Count(shown, "\n  start\r\n"), shown)
	require.NotContains(t, shown, "\x1b")
}

func TestAPipeGetsTheOutputOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	got := finish(t, command(t, pygenttest.NewServer(t, bash(slow), pygenttest.Call("stop", nil)).Env(), "run", "--no-docker", "--workspace", dir, "Build."))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "\n  start\n"))
	require.NotContains(t, got.stderr, "\x1b")
}
