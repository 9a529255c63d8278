package terminal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// leaver is somebody with files in a temporary workspace who leaves.
type leaver struct {
	*person
	dir string // where the program was started
}

// leavesFiles has a command make files, and presses Ctrl-D.
func leavesFiles(t *testing.T, script string) *leaver {
	t.Helper()
	p := &leaver{&person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}, ""}
	cmd := p.command(pygenttest.NewServer(t, pygenttest.Text("Hello.")), temporary)
	p.dir = cmd.Dir
	p.Terminal = termtest.Start(t, cmd, 200, 24) // so that no word is wrapped
	p.Await("Ready")
	p.Type("!" + script + "\n")
	p.Await("✓ exit 0", "Ready")
	p.Key("ctrl+d")
	p.Await("Keep them?", "1. Keep them in ./pygent-", "2. Keep them in another directory", "3. Delete them")
	return p
}

// kept returns the names below the directory where the program was started.
func (p *leaver) kept() (names []string) {
	p.t.Helper()
	require.NoError(p.t, fs.WalkDir(os.DirFS(p.dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

func TestTheFilesOfATemporaryWorkspaceAreKept(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "mkdir -p d; echo one >d/a.txt; head -c 2500 /dev/zero >b; mkfifo pipe; for i in $(seq 11); do : >z$i; done")
	p.Await("14 files of this temporary workspace", "b · 2.5 kB", "d/a.txt · 4 B", "pipe · not a regular file", "… and 2 more")
	p.answers("\n")
	p.left()
	all := p.All()
	require.Contains(t, all, "not copied, because they are not regular files: pipe")
	kept := p.kept()
	require.Len(t, kept, 13)
	require.Regexp(t, `^pygent-\d{8}-\d{6}/b$`, kept[0])
	dir := filepath.Join(p.dir, filepath.Dir(kept[0]))
	require.Contains(t, strings.ReplaceAll(all, "\n", ""), "The files are in "+dir)
	data, err := os.ReadFile(filepath.Join(dir, "d", "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
}

func TestTheFilesAreKeptElsewhere(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "echo one >a")
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, "full"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "full", "mine"), nil, 0o644))
	elsewhere := func(dir string) {
		p.answers("e")
		p.Await("directory: ")
		p.Type(dir + "\n")
	}
	elsewhere("full")
	p.Await("the files could not be kept: ", "it exists and is no empty directory")
	elsewhere("full/mine/below")
	p.Await("not a directory")
	p.answers("e")
	p.Await("directory: ")
	p.Type("draft")
	p.Key("ctrl+c", "ctrl+c") // clears the text, and goes back
	p.AwaitNo("directory: ")
	elsewhere("new/place")
	p.left()
	require.Equal(t, []string{"full/mine", "new/place/a"}, p.kept())
}

func TestTheQuestionIsSeenInALowWindow(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "touch a b c d e f g h")
	p.Resize(40, 5)
	p.Await("Keep them?", "k keep", "d delete", "g go back")
	p.Resize(80, 24)
	p.answers("k")
	p.left()
}

func TestTheWorkspaceIsNotKeptInItself(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "pwd >here; cat here")
	var workspace string
	for line := range strings.Lines(p.All()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			workspace = line
		}
	}
	require.DirExists(t, workspace)
	p.answers("e")
	p.Await("directory: ")
	p.Type(workspace + "/d\n")
	p.Await("is in the temporary workspace itself", "3. Delete them")
	require.NoDirExists(t, workspace+"/d")
	p.answers("d")
	p.left()
}

func TestTheFilesAreDeleted(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "echo one >a")
	p.answers("d")
	p.left()
	require.Contains(t, p.All(), "The files are deleted.")
	require.Empty(t, p.kept())
}

// Ctrl-C and Ctrl-D never delete the files, however often they are pressed, and Esc goes
// on with the session.
func TestCtrlCAtTheQuestionAboutFilesDeletesNothing(t *testing.T) {
	for _, key := range []string{"ctrl+c", "ctrl+d"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			p := leavesFiles(t, "echo one >a")
			p.Key(key, key, key, key)
			p.Until("a word about the keys", func(s termtest.Screen) bool {
				return strings.Contains(s.Text(), "too early") || strings.Contains(s.Text(), "press k to keep the files, d to delete them")
			})
			require.Contains(t, p.Screen().Text(), "Keep them?")
			for range 5 {
				p.reads()
				p.Key(key)
				p.Await("press k to keep the files, d to delete them", "4. Go back to the session (g or Esc)")
			}
			p.pauses()
			p.Key("esc")
			p.AwaitNo("Keep them?")
			p.Type("!cat a\n")
			p.Await("one\n✓ exit 0", "Ready")
			p.Key("ctrl+d")
			p.Await("Keep them?")
			p.answers("k")
			p.left()
			require.Len(t, p.kept(), 1)
		})
	}
}

// Who sends the signal of Ctrl-C cannot answer: the second one that comes after the
// words about it deletes the files.
func TestTheSignalOfCtrlCAtTheQuestionAboutFiles(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "echo one >a")
	p.reads()
	p.Signal(os.Interrupt)
	p.Await("another signal deletes the files")
	p.reads()
	p.Signal(os.Interrupt)
	p.left()
	require.Empty(t, p.kept())
}

func TestOneStaysForTheFiles(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "echo one >a")
	p.answers("g")
	p.AwaitNo("Keep them?")
	p.Type("!cat a; rm a\n")
	p.Await("one\n✓ exit 0", "Ready")
	p.Type("hi\n")
	p.Await("Hello.", "Ready")
	require.Len(t, p.leaves(), 3, "nothing is asked, since nothing is left")
}

func TestFilesThatCannotBeCopiedAreNotLost(t *testing.T) {
	t.Parallel()
	p := leavesFiles(t, "echo one >a")
	require.NoError(t, os.RemoveAll(p.dir))
	require.NoError(t, os.WriteFile(p.dir, nil, 0o644))
	p.answers("k")
	p.Await("the files could not be kept: ", "not a directory", "Keep them?")
	require.NoError(t, os.Remove(p.dir))
	p.answers("k")
	p.left()
	require.Len(t, p.kept(), 1)
}

func TestWhatWasGivenIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	given := filepath.Join(t.TempDir(), "given.txt")
	require.NoError(t, os.WriteFile(given, []byte("one\n"), 0o644))
	p := sit(t, pygenttest.NewServer(t), temporary, "PYGENT_INIT_FILES="+given)
	p.Type("!cat given.txt\n")
	p.Await("one", "✓ exit 0", "Ready")
	p.leaves()
}

func TestWhatRunsIsNamedBeforeItEnds(t *testing.T) {
	t.Parallel()
	job := pygenttest.Call("bash", map[string]any{"cmd": "sleep 600", "background": true})
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, job, delegate, pygenttest.Text("Begun.")).On("Count", pygenttest.Text("Never.").WithGate(gate)), noQuestions)
	p.Type("go\n")
	p.Await("Begun.", "Ready", "(Count)", "1 job")
	p.Key("ctrl+d")
	p.Await("1 job and 1 task"+wouldStop, "(Count)", "sleep 600", "❯ 1. Go back to the session", "2. Leave")
	p.answers("\n")
	p.AwaitNo(wouldStop)
	p.Type("/exit\n")
	p.Await(wouldStop)
	p.answers("l")
	p.left()
}

// The question follows what ends while it is open, and waits for its answer also when
// nothing runs any more.
func TestTheQuestionAboutWhatRunsStaysWhenThatEnds(t *testing.T) {
	t.Parallel()
	workspace := t.TempDir()
	job := pygenttest.Call("bash", map[string]any{"cmd": "until [ -e over ]; do sleep 0.1; done", "background": true})
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	gate := make(chan struct{})
	stop := pygenttest.Call("stop", map[string]any{"summary": "counted"})
	p := sit(t, pygenttest.NewServer(t, job, delegate, pygenttest.Text("Begun."), pygenttest.Text("I have heard.")).On("Count", stop.WithGate(gate)), noQuestions, "PYGENT_WORKSPACE="+workspace)
	const nothing = "Nothing is running any more. Results that the agent has not seen would be lost:"
	p.Type("go\n")
	p.Await("Begun.", "Ready", "(Count)", "1 job")
	p.Key("ctrl+d")
	p.Await("1 job and 1 task"+wouldStop, "(Count)", "until")
	close(gate)
	p.Await("1 job"+wouldStop, "until", "counted", "(Count) · has ended")
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "over"), nil, 0o644))
	p.Await(nothing, "(Count) · has ended", "sleep 0.1; done · has ended", "❯ 1. Go back to the session", "2. Leave")
	p.answers("\n")
	p.AwaitNo(nothing)
	p.Type("what of it?\n")
	p.Await("I have heard.", "Ready")
	msgs := p.leaves()
	require.Contains(t, msgs[len(msgs)-3].Text()+msgs[len(msgs)-2].Text(), "counted", "the agent hears of the end")
}

func TestWithoutATerminalTheFilesAreNamed(t *testing.T) {
	t.Parallel()
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	run := func(server *pygenttest.Server, env ...string) string {
		cmd := p.command(server, env...)
		cmd.Stdin = strings.NewReader("hi\n")
		cmd.WaitDelay = time.Minute
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	makes := func() *pygenttest.Server {
		return pygenttest.NewServer(t, bash("for i in 1 2 3 4 5 6 7; do : >f$i; done"), pygenttest.Text("Made."))
	}
	require.Contains(t, run(makes(), noQuestions, temporary), "the temporary workspace is deleted with its files: f1, f2, f3, f4, f5 and 2 others. To keep them, use --cwd or --workspace DIR")
	require.NotContains(t, run(makes(), noQuestions, "PYGENT_WORKSPACE="+t.TempDir()), "was temporary")
	require.NotContains(t, run(pygenttest.NewServer(t, pygenttest.Text("Hello.")), temporary), "was temporary")
}
