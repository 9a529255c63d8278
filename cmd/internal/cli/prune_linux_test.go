package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/tempname"
)

// leftBehind is a machine with two temporary workspaces of ended processes: one
// with a proof of its owner, and one of an earlier version without that.
type leftBehind struct {
	home, temp      string
	proved, earlier string
}

func newLeftBehind(t *testing.T) *leftBehind {
	t.Helper()
	l := &leftBehind{home: t.TempDir(), temp: t.TempDir()}
	l.proved, l.earlier = filepath.Join(l.temp, "pygent-1"), filepath.Join(l.temp, "pygent-2")
	place := owner.ThisPlace()
	require.NotEmpty(t, place.Machine, "this machine has no id")
	place.Boot = "earlier"
	dead := owner.Open(filepath.Join(l.home, ".local", "state", "pygent"), place)
	require.NoError(t, dead.Err())
	for dir, note := range map[string][]byte{l.proved: dead.Note("pygent-1"), l.earlier: []byte("host/boot/pid:[1]/7/1")} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "workspace"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "owner"), note, 0o600))
	}
	return l
}

func (l *leftBehind) prune(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, []string{"HOME=" + l.home, "XDG_STATE_HOME=", "TMPDIR=" + l.temp}, append([]string{"--no-docker", "prune"}, args...)...)
	return cmd
}

func TestPruneRemovesOnlyWhatIsChosen(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	got := finish(t, l.prune(t))
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "directory "+l.proved)
	require.Regexp(t, "directory "+l.earlier+", .* old, of process 7 on host: may belong", got.stdout)
	require.Contains(t, got.stdout, "nothing was removed")

	got = finish(t, l.prune(t, l.earlier, "pygent-3"))
	require.Equal(t, exitUsage, got.code, "a name that is not there")
	require.DirExists(t, l.earlier)

	got = finish(t, l.prune(t, "--yes"))
	require.Equal(t, exitOK, got.code, got.stderr)
	require.NoDirExists(t, l.proved)
	require.DirExists(t, l.earlier)

	got = finish(t, l.prune(t, l.earlier))
	require.Equal(t, exitOK, got.code, got.stderr)
	require.NoDirExists(t, l.earlier)
	require.Equal(t, "no leftovers\n", finish(t, l.prune(t)).stdout)
}

// A process may die while it writes files of a workspace, and while it tries what the
// kernel can protect, for which it has a temporary directory.
func TestPruneRemovesWhatAKilledProcessLeft(t *testing.T) {
	t.Parallel()
	const self = "PYGENT_TEST_KILLED_IN"
	if dir := os.Getenv(self); dir != "" {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		for _, at := range []string{".", "sub"} {
			_, err := tempname.Create(root, at, 0o600)
			require.NoError(t, err)
		}
		_, _, err = sandbox.MakeTemp()
		require.NoError(t, err)
		me, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, me.Kill())
		select {}
	}
	home, temp, dir := t.TempDir(), t.TempDir(), t.TempDir()
	env := []string{"HOME=" + home, "XDG_STATE_HOME=", "TMPDIR=" + temp}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".pygent-notes"), nil, 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	alive, err := tempname.Create(root, ".", 0o600)
	require.NoError(t, err)
	defer alive.Remove()
	there := func() int {
		top, err := filepath.Glob(filepath.Join(dir, ".pygent-*"))
		require.NoError(t, err)
		below, err := filepath.Glob(filepath.Join(dir, "sub", ".pygent-*"))
		require.NoError(t, err)
		temps, err := filepath.Glob(filepath.Join(temp, "pygent-*", "workspace"))
		require.NoError(t, err)
		return len(top) + len(below) + len(temps)
	}
	require.Equal(t, 2, there())
	// Short, because the child would build the command otherwise, in an empty home without a cache.
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run=^TestPruneRemovesWhatAKilledProcessLeft$")
	killed.Env = append(append(os.Environ(), env...), self+"="+dir)
	out, err := killed.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, -1, killed.ProcessState.ExitCode(), "%s", out)
	require.Equal(t, 6, there(), "a file, another one with a marker, and a directory")
	prune := func(args ...string) outcome {
		cmd := command(t, env, append([]string{"--no-docker", "prune"}, args...)...)
		cmd.Dir = dir
		return finish(t, cmd)
	}
	got := prune()
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, 2, strings.Count(got.stdout, "file "+dir), got.stdout)
	require.Equal(t, 1, strings.Count(got.stdout, "directory "+temp), got.stdout)
	got = prune("--yes")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, 2, there(), got.stdout)
	require.Equal(t, "no leftovers\n", prune().stdout)
}

func TestPruneTellsAReasonOfSeveralOnce(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	another := filepath.Join(l.temp, "pygent-0")
	require.NoError(t, os.MkdirAll(filepath.Join(another, "workspace"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(another, "owner"), []byte("host/boot/pid:[1]/8/1"), 0o600))
	got := finish(t, l.prune(t))
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `^directory `+l.proved+`, [^\n]*\n`+
		`2 leftovers: may belong to somebody else [^\n]*\n`+
		`  directory `+another+`, [^\n:]* of process 8 on host\n`+
		`  directory `+l.earlier+`, [^\n:]* of process 7 on host\n`, got.stdout)
}

func TestPruneSaysThatNoEngineWasAsked(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	prune := func(args ...string) outcome {
		return finish(t, command(t, []string{"HOME=" + l.home, "XDG_STATE_HOME=", "TMPDIR=" + l.temp, "DOCKER_HOST=unix:///none.sock"}, append([]string{"prune"}, args...)...))
	}
	got := prune()
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "pygent: warning: containers and volumes were not checked: ")
	require.Contains(t, got.stderr, "unix:///none.sock")
	require.Contains(t, got.stdout, "directory "+l.proved)
	require.Equal(t, exitFailed, prune("--docker").code)
	require.Empty(t, prune("--no-docker").stderr)
}

func TestASignalEndsTheWaitOfPruneForAnEngine(t *testing.T) {
	t.Parallel()
	_, env := silentEngine(t)
	p := &pausedRun{t: t}
	p.start(command(t, env, "prune"))
	p.await("· waiting for the Docker Engine at ")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.await("pygent: interrupted")
	requireExit(t, p.cmd, exitCancel)
}

func TestPruneSaysThatAnEngineTakesItsTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		slow string // the method of the requests about containers that have no answer
		args []string
		says string
	}{
		"looking":  {http.MethodGet, nil, "pygent: still looking for leftovers… Ctrl-C to stop"},
		"removing": {http.MethodDelete, []string{"left"}, "pygent: still removing… Ctrl-C to stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/_ping"):
				case strings.Contains(r.URL.Path, "/containers/") && r.Method == tt.slow:
					<-r.Context().Done()
				case !strings.HasSuffix(r.URL.Path, "/containers/json"):
					fmt.Fprint(w, "{}")
				default:
					fmt.Fprint(w, `[{"Id":"1","Names":["/left"],"State":"created","Labels":{"pygent.owner":"host/boot/pid:[1]/8/1"}}]`)
				}
			}))
			t.Cleanup(engine.Close)
			p := &pausedRun{t: t}
			p.start(command(t, []string{"DOCKER_HOST=tcp://" + engine.Listener.Addr().String()}, append([]string{"prune"}, tt.args...)...))
			p.await(tt.says)
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			p.await("pygent: interrupted")
			requireExit(t, p.cmd, exitCancel)
		})
	}
}

func TestPruneShowsAFewOfWhatOthersLeft(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	for i := range shownOthers + 2 {
		dir := filepath.Join(l.temp, fmt.Sprintf("pygent-1%02d", i))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "workspace"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "owner"), []byte("host/boot/pid:[1]/8/1"), 0o600))
	}
	got := finish(t, l.prune(t))
	require.Contains(t, got.stdout, fmt.Sprintf("%d leftovers: may belong", shownOthers+3))
	require.Equal(t, shownOthers+1, strings.Count(got.stdout, "directory "), got.stdout)
	require.Contains(t, got.stdout, "\n  … and 3 more (use --all to list them)\nnothing was removed; use --yes ")
	require.Equal(t, shownOthers+4, strings.Count(finish(t, l.prune(t, "--all")).stdout, "directory "))

	require.Contains(t, finish(t, l.prune(t, "--yes")).stdout, "removed 1\n")
	got = finish(t, l.prune(t, "--yes"))
	require.Contains(t, got.stdout, "nothing was removed: ")
	require.NotContains(t, got.stdout, "--yes", "it was given")
}

func TestPruneAsksForEach(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second   string
		proved, earlier bool // whether they are removed
	}{
		"yes and its name": {"y\n", "NAME\n", true, true},
		"yes is no name":   {"YES\n", "y\n", true, false},
		"no":               {"n\n", "\n", false, false},
		"the end":          {ctrlD, ctrlD, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeftBehind(t)
			term := startTerminal(t, l.prune(t))
			term.expect("Remove it? [y/N] ")
			term.answers(tt.first)
			term.expect(asksForName)
			if tt.second == "NAME\n" {
				tt.second = l.earlier + "\n"
			}
			term.answers(tt.second)
			require.NoError(t, term.cmd.Wait())
			exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
			require.Equal(t, tt.proved, !exists(l.proved))
			require.Equal(t, tt.earlier, !exists(l.earlier))
		})
	}
}

func TestPruneTakesOnlyWhatIsTypedForAnAnswer(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	term := startTerminal(t, l.prune(t))
	term.expect("Remove it? [y/N] ")
	term.send("y\ny\n" + l.earlier + "\n")
	term.expect("as a paste does")
	term.expect("Remove it? [y/N] ")
	term.types("y\n")
	term.expect("(that was typed before the question could be read; type the answer)\nRemove it? [y/N] ")
	term.answers("n\n")
	term.expect(asksForName)
	term.answers("\n")
	require.NoError(t, term.cmd.Wait())
	require.DirExists(t, l.proved)
	require.DirExists(t, l.earlier)
}

func TestPruneRemovesNothingWhenInterrupted(t *testing.T) {
	t.Parallel()
	l := newLeftBehind(t)
	prune := l.prune(t)
	prune.Env = append(prune.Env, "TERM=xterm")
	term := startTerminal(t, prune)
	term.expect("Remove it? [y/N] ")
	term.answers("y\n")
	term.expect(asksForName)
	term.send(ctrlC)
	require.Error(t, term.cmd.Wait())
	<-term.done
	require.Equal(t, exitCancel, term.cmd.ProcessState.ExitCode())
	shown := term.shown.String()
	require.Greater(t, strings.LastIndex(shown, string(screen.PasteOff)), strings.LastIndex(shown, string(screen.PasteOn)), "the terminal goes on to mark pastes")
	require.DirExists(t, l.proved)
	require.DirExists(t, l.earlier)
}
