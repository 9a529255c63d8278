package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// writes is a reply that writes a file with a command, which no approval covers.
func writes(name, content string) pygenttest.Reply {
	return bash("mkdir -p $(dirname " + name + ") && printf '" + content + "\\n' > " + name)
}

// file returns what is in a file of the directory.
func (u *user) file(name string) string {
	u.t.Helper()
	data, err := os.ReadFile(filepath.Join(u.dir, name))
	require.NoError(u.t, err)
	return string(data)
}

func (u *user) write(name, content string) {
	u.t.Helper()
	require.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name), []byte(content), 0o600))
}

func (u *user) git(args ...string) {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), "git", append([]string{"-c", "user.name=u", "-c", "user.email=u@example.com"}, args...)...)
	cmd.Dir, cmd.Env = u.dir, append(os.Environ(), "HOME="+u.home, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(u.t, err, string(out))
}

// unasked runs commands without a question.
var unasked = []string{"--no-docker", "--cwd", "-e", "PYGENT_CONFIRM_BASH=0"}

func TestTurnsAreUndoneAtATerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."),
		writes("poem.txt", "violets"), pygenttest.Text("Now it is violets."), pygenttest.Text("As you like."))
	u.write(".gitignore", "cache/\n")
	require.NoError(t, os.Mkdir(filepath.Join(u.dir, "cache"), 0o700))
	u.write("cache/big", "x")
	p := u.sits(unasked...)
	p.Await("Ready")
	p.Type("write a poem\n")
	p.Await("It is about roses.", "Done", "Ready")
	p.Type("no, take violets\n")
	p.Await("Now it is violets.", "Done", "Ready")

	p.Type("/diff ")
	p.Await("❯ 1         now · no, take violets", "  2         now · write a poem", "  poem.txt", tabCompletes)
	p.Type("2 ")
	p.Await("❯ poem.txt")
	p.Key("tab", "enter")
	p.Await("created poem.txt", "+ violets")
	p.Type("/diff 1\n")
	p.Await("changed poem.txt", "- roses", "+ violets")

	p.Type("/undo\n")
	p.Await("· 4 messages taken back, 1 file changed", "! left alone, because checkpoints exclude it: cache", "› no, take violets", "Ready")
	require.Equal(t, "roses\n", u.file("poem.txt"))
	p.Key("ctrl+c") // clears the draft
	p.AwaitNo("› no, take violets\n\n")
	p.Type("/redo\n")
	p.Await("· 4 messages brought back, 1 file changed", "Ready")
	require.Equal(t, "violets\n", u.file("poem.txt"))
	p.Type("/redo\n")
	p.Await("✗ /redo: redo: nothing was undone since the last turn")

	u.write("poem.txt", "my own\n")
	u.write("notes", "mine\n")
	p.Type("/undo 2\n")
	p.Await("8 messages taken back, 0 files changed, 2 files left as you changed them", "! kept notes: you have changed it since", "! kept poem.txt: it was changed meanwhile", "› write a poem", "Ready")
	require.Equal(t, "my own\n", u.file("poem.txt"))
	require.Equal(t, "mine\n", u.file("notes"))
	p.Type(" of trees\n") // the draft is edited, and sent again
	p.Await("› write a poem of trees", "As you like.", "Done", "Ready")
	p.Type("/undo 9\n")
	p.Await("there are checkpoints of the last 1 turn only, and not of 9")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	last := u.server.Requests()[4].Chat.Messages
	require.Equal(t, "write a poem of trees", last[len(last)-1].Text())
	require.Len(t, last, 2, "the model does not hear of what was undone")
	require.Equal(t, 2, u.session().Messages)
}

func TestUndoLeavesGitAlone(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("a", "one"), pygenttest.Text("One."))
	u.git("init", "-q")
	u.write("begun", "x")
	u.git("add", ".")
	u.git("commit", "-qm", "begin")
	p := u.sits(append(unasked, "write a")...)
	p.Await("One.", "Done", "Ready")
	u.git("add", ".")
	u.git("commit", "-qm", "a is there")
	p.Type("/undo ")
	p.Await("❯ 1  now · write a")
	p.Type("\n")
	p.printed("git's HEAD stays at")
	p.Await("› write a", "Ready")
	_, err := os.Stat(filepath.Join(u.dir, "a"))
	require.ErrorIs(t, err, os.ErrNotExist)
	u.git("checkout", "-q", "--", "a") // the repository is whole
	require.Equal(t, "one\n", u.file("a"))
	p.Key("ctrl+c", "ctrl+d")
	require.NoError(t, p.Wait(), p.All())
}

func TestASessionIsForkedAtATerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."),
		writes("poem.txt", "violets"), pygenttest.Text("Now it is violets."),
		writes("poem.txt", "tulips"), pygenttest.Text("Tulips, then."))
	u.dir = filepath.Join(u.dir, "work")
	require.NoError(t, os.Mkdir(u.dir, 0o700))
	p := u.sits(unasked...)
	p.Await("Ready")
	p.Type("/fork\n")
	p.Await("✗ /fork: there is nothing to fork yet")
	p.Type("write a poem\n")
	p.Await("It is about roses.", "Done", "Ready")
	p.Type("no, take violets\n")
	p.Await("Now it is violets.", "Done", "Ready")
	id := u.session().ID
	p.Type("/fork ")
	p.Await("❯ 1  now · no, take violets")
	p.Type("1\n")
	p.printed("has the 4 messages up to your message: no, take violets")
	p.printed(returnsHere + id)
	list := u.sessions()
	require.Len(t, list, 2)
	at := 0
	if list[at].ID == id {
		at = 1
	}
	fork := list[at]
	require.Equal(t, u.dir+"-"+fork.ID, fork.Workspace)
	require.Equal(t, "fork: write a poem", fork.Title)
	require.False(t, fork.Open)
	copied, err := os.ReadFile(filepath.Join(fork.Workspace, "poem.txt"))
	require.NoError(t, err)
	require.Equal(t, "roses\n", string(copied))
	require.Equal(t, "violets\n", u.file("poem.txt"))

	p.Type("/fork 2\n")
	p.Await("there is nothing to fork")
	p.Type("/fork 1 .\n")
	p.Await("fork the session at checkpoint 6: it is in", "choose a directory outside")
	require.Len(t, u.sessions(), 2)
	left, err := filepath.Glob(u.dir + "-*")
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing is left of a fork that failed")

	other := u.sits("--resume", fork.ID, "-e", "PYGENT_CONFIRM_BASH=0") // both are open
	other.Await(`continues after 4 messages of "fork: write a poem"`, "Ready")
	other.Type("tulips\n")
	other.Await("Tulips, then.", "Done", "Ready")
	other.Key("ctrl+d")
	require.NoError(t, other.Wait(), other.All())
	copied, err = os.ReadFile(filepath.Join(fork.Workspace, "poem.txt"))
	require.NoError(t, err)
	require.Equal(t, "tulips\n", string(copied))
	require.Equal(t, "violets\n", u.file("poem.txt"))
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Len(t, u.conversation(id), 1+8)
}

// A signal during an /undo leaves it done or not, and the session goes on.
func TestASignalDuringAnUndo(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."), pygenttest.Text("As you like."))
	u.write("poem.txt", "violets\n")
	p := u.sits(unasked...)
	p.Await("Ready")
	p.Type("write a poem\n")
	p.Await("It is about roses.", "Done", "Ready")
	p.Type("/undo")
	p.Await("› /undo")
	p.Key("enter")
	p.Signal(syscall.SIGTERM)
	require.Error(t, p.Wait())
	require.Equal(t, 128+int(syscall.SIGTERM), p.cmd.ProcessState.ExitCode(), p.All())
	p.requireGivenBack()
	got := u.does("--continue", "and on")
	require.Contains(t, got.stdout, "As you like.")
	if strings.Contains(got.stdout, "continues after 4 messages") {
		require.Equal(t, "roses\n", u.file("poem.txt"))
	} else {
		require.Equal(t, "violets\n", u.file("poem.txt"))
	}
}

// A plain session says the same of a restore, and offers nothing.
func TestTurnsAreUndoneInAPlainSession(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."), pygenttest.Text("Fine."))
	cmd := u.command(unasked...)
	cmd.Stdin = strings.NewReader("write a poem\n/undo\n/redo\n/diff 1\n/fork\n/undo\n/undo\nanother\n")
	got := finish(t, cmd)
	require.Equal(t, exitFailed, got.code, "there was no turn to undo: %s", got.stderr)
	for _, want := range []string{"· 4 messages taken back, 1 file changed\n", "\n· your message was: write a poem\n", "· 4 messages brought back, 1 file changed\n",
		"created poem.txt\n", "+ roses\n", "Continue there: pygent --resume ", "there is no turn to undo", "Fine."} {
		require.Contains(t, got.stdout+got.stderr, want)
	}
	require.Equal(t, 2, strings.Count(got.stdout, "messages taken back"))
	require.Len(t, u.sessions(), 2)
}

// A fork of a session in a temporary workspace has its files where pygent was started.
func TestAForkOfATemporaryWorkspace(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."))
	cmd := u.command("--no-docker")
	cmd.Stdin = strings.NewReader("write a poem\n/fork\n/fork 1 'a b'\n/fork 0 'a b'\n")
	got := finish(t, cmd)
	require.Equal(t, exitFailed, got.code, "there was no checkpoint 0: %s", got.stderr)
	require.Regexp(t, regexp.MustCompile(`(?m)^Files from that point: \S*/pygent-\w{8}$`), got.stdout)
	require.Regexp(t, regexp.MustCompile(`(?m)^Files from that point: "\S*/a b"$`), got.stdout)
	require.Equal(t, "roses\n", u.file("a b/poem.txt"))
	left, err := filepath.Glob(filepath.Join(u.dir, "pygent-*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// A turn that kill -9 has ended is one that can be undone, too.
func TestAKilledTurnIsUndone(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."),
		bash("echo half > poem.txt; touch begun; sleep 600"), pygenttest.Text("Fine."))
	p := u.sits(append(unasked, "write a poem")...)
	p.Await("It is about roses.", "Done", "Ready")
	p.Type("a better one\n")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(u.dir, "begun")); return err == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.Wait())
	p = u.sits("--continue")
	p.Await(`continues after 6 messages of "write a poem"; you said last: a`, wasInterrupted, "Ready")
	p.Type("/undo ")
	p.Await("❯ 1  now · a better one", "  2  now · write a poem")
	p.Type("\n")
	p.Await("taken back", "› a better one", "Ready")
	require.Equal(t, "roses\n", u.file("poem.txt"))
	require.NoFileExists(t, filepath.Join(u.dir, "begun"))
	p.Type("\n")
	p.Await("Fine.", "Done", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Equal(t, 6, u.session().Messages)
}

// At a terminal that can do nothing but print, the same is said.
func TestTurnsAreUndoneAtADumbTerminal(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."), pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}}), pygenttest.Text("One it is."))
	cmd := u.command(unasked...)
	cmd.Env = append(cmd.Env, "TERM=dumb")
	term := startTerminal(t, cmd)
	term.expect("/exit leaves.\n> ")
	term.types("write a poem\n")
	term.expect("It is about roses.\n")
	term.expect("> ")
	term.types("ask me\n")
	term.expect("? Which?")
	term.expect("> ")
	term.types("/undo\n")
	term.expect("· 3 messages taken back, 0 files changed\n· your message was: ask me\n")
	term.types("1\n") // it chooses no option of a question that is gone
	term.expect("One it is.")
	term.types("/fork 2\n")
	term.expect("there is nothing to fork")
	term.types("/fork 1\n")
	term.expect("up to your message: 1\n")
	term.expect(returnsHere)
	term.types("/exit\n")
	require.NoError(t, cmd.Wait())
	requests := u.server.Requests()
	last := requests[len(requests)-1].Chat.Messages
	require.Equal(t, "1", last[len(last)-1].Text())
	require.Len(t, u.sessions(), 2)
}
