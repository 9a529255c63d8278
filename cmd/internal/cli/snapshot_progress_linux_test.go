package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/snapshot"
	"github.com/x/pygent/pygenttest"
)

// large is how many bytes a file has that takes a while to read. It has no content, so
// that it takes no room.
const large = 3 << 30

func makeLarge(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(large))
	require.NoError(t, f.Close())
}

// savesAndLoads is a user with a snapshot, and with a large file since.
func savesAndLoads(t *testing.T) (u *user, base, snap string) {
	t.Helper()
	u, base = newUser(t, pygenttest.Text("Hello.")), t.TempDir()
	snap = filepath.Join(base, "snap")
	u.write("note", "small\n")
	cmd := u.command(unasked...)
	cmd.Stdin = strings.NewReader("hi\n/save " + snap + "\n")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "snap", only(t, base))
	makeLarge(t, filepath.Join(u.dir, "large"))
	return u, base, snap
}

func TestASaveShowsItsProgressAndIsInterrupted(t *testing.T) {
	t.Parallel()
	u, base, snap := savesAndLoads(t)
	p := u.sits(unasked...)
	p.Await("Ready")
	for _, line := range []string{"/save " + filepath.Join(base, "other"), "/save " + snap + " --force"} {
		p.Type(line + "\n")
		p.Await("░", " % saving · Ctrl-C skips it")
		p.Key("ctrl+c")
		p.Await("■ Interrupted")
		require.Equal(t, "snap", only(t, base), "nothing is left half, and the old one stays")
		p.Type("/help\n")
		p.AwaitNo("■ Interrupted")
	}
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Contains(t, p.All(), "saving 3.2 GB in 2 files; this may take a while")
	p = u.sits(unasked...)
	p.Await("Ready")
	p.Type("/save " + filepath.Join(base, "other") + "\n")
	p.Await("░", " % saving · Ctrl-C skips it")
	p.Signal(syscall.SIGTERM)
	require.Error(t, p.Wait())
	require.Equal(t, 128+int(syscall.SIGTERM), p.cmd.ProcessState.ExitCode(), p.All())
	require.Equal(t, "snap", only(t, base), "a signal leaves nothing half, either")
	require.Contains(t, u.does("--no-docker", "--load", snap).stdout, "the model said last: Hello.")
}

func TestALoadShowsItsProgressAndIsInterrupted(t *testing.T) {
	t.Parallel()
	u, _, snap := savesAndLoads(t)
	require.NoError(t, os.Remove(filepath.Join(u.dir, "large")))
	makeLarge(t, filepath.Join(snap, "workspace", "note"))
	about, err := os.ReadFile(filepath.Join(snap, "snapshot.json"))
	require.NoError(t, err)
	about = regexp.MustCompile(`"bytes": \d+`).ReplaceAll(about, []byte(`"bytes": 3221225472`))
	require.NoError(t, os.WriteFile(filepath.Join(snap, "snapshot.json"), about, 0o600))
	list, err := os.ReadFile(filepath.Join(snap, snapshot.List))
	require.NoError(t, err)
	list = regexp.MustCompile(`("path":"workspace/note".*"size":)[0-9]+`).ReplaceAll(list, []byte("${1}3221225472"))
	require.NoError(t, os.WriteFile(filepath.Join(snap, snapshot.List), list, 0o600))
	temp := t.TempDir()
	begin := func(args ...string) *exec.Cmd {
		cmd := u.command(append(args, "--no-docker", "--load", snap)...)
		cmd.Env = append(cmd.Env, "TMPDIR="+temp, "TERM=xterm")
		return cmd
	}
	for name, cmd := range map[string]*exec.Cmd{"a session": begin(), "a run": begin("run", "go")} {
		t.Run(name, func(t *testing.T) {
			sessions := len(u.sessions())
			term := startTerminal(t, cmd)
			term.expect("· loading the snapshot: ")
			term.expect(" %, Ctrl-C skips it")
			term.send(ctrlC)
			term.expect("pygent: interrupted: load the snapshot ")
			require.Error(t, cmd.Wait())
			require.Equal(t, exitCancel, cmd.ProcessState.ExitCode())
			<-term.done
			require.Contains(t, term.shown.String(), string(screen.ClearLine)+"pygent: interrupted", "the bar is gone")
			left, err := os.ReadDir(temp)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Len(t, u.sessions(), sessions)
		})
	}
}
