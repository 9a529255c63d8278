package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// leavesPlain has a command make files in a temporary workspace, and leaves the plain
// session.
func leavesPlain(t *testing.T, script string) *terminal {
	t.Helper()
	term := openTerminal(t, pygenttest.NewServer(t))
	term.expect("The workspace is temporary. If files are created in it, you can keep them at the end.")
	term.expect("> ")
	term.send("!" + script + "\n")
	term.expect("\n> ")
	term.send(ctrlD)
	term.expect("will be deleted. Keep them?\n")
	term.expect("[k]eep them in ./pygent-")
	term.expect("or [d]elete them: ")
	return term
}

// keptFiles returns the files below the directory of a session that match a pattern.
func (x *terminal) keptFiles(pattern string) []string {
	x.t.Helper()
	require.NoError(x.t, x.cmd.Wait())
	<-x.done
	kept, err := filepath.Glob(filepath.Join(x.cmd.Dir, pattern))
	require.NoError(x.t, err)
	return kept
}

func TestPlainKeepsTheFilesOfATemporaryWorkspace(t *testing.T) {
	t.Parallel()
	term := leavesPlain(t, "echo one >made.txt; mkfifo pipe")
	term.answers("k\n")
	term.expect("(the files are in " + term.cmd.Dir + "/pygent-")
	term.expect("! not copied, because they are not regular files: pipe\n")
	kept := term.keptFiles("pygent-*/*")
	require.Len(t, kept, 1)
	data, err := os.ReadFile(kept[0])
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
	require.Contains(t, term.shown.String(), "made.txt · 4 B")
}

func TestPlainKeepsTheFilesElsewhere(t *testing.T) {
	t.Parallel()
	term := leavesPlain(t, "echo one >made.txt")
	require.NoError(t, os.Mkdir(filepath.Join(term.cmd.Dir, "full"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(term.cmd.Dir, "full", "mine"), nil, 0o644))
	for _, tt := range []struct{ answer, says string }{
		{"\n", "(answer k or d, or k and a directory)"},
		{"delete it all\n", "(answer k or d, or k and a directory)"},
		{"k full\n", "it exists and is no empty directory; name a new one"},
	} {
		term.answers(tt.answer)
		term.expect(tt.says)
		term.expect("or [d]elete them: ") // else types takes this for what it types
	}
	term.answers("keep new/one\n")
	term.expect("(the files are in " + term.cmd.Dir + "/new/one)")
	require.Len(t, term.keptFiles("new/one/made.txt"), 1)
}

func TestPlainDeletesFilesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	const goes = "(the temporary workspace is deleted with its files: made.txt. To keep them, use --cwd or --workspace DIR"
	for name, tt := range map[string]struct {
		leave func(*terminal)
		says  string
	}{
		"an answer": {func(x *terminal) { x.answers("d\n") }, "(the files are deleted)"},
		"Ctrl-D twice": {func(x *terminal) {
			x.reads()
			x.send(ctrlD)
			x.expect("(press k to keep the files, d to delete them)")
			x.expect("or [d]elete them: ")
			x.reads()
			x.send(ctrlD)
		}, goes},
		"Ctrl-C twice": {func(x *terminal) {
			x.send(ctrlC)
			x.expect("(press k to keep the files, d to delete them)")
			x.expect("or [d]elete them: ")
			x.send(ctrlC)
		}, goes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := leavesPlain(t, "echo one >made.txt")
			tt.leave(term)
			term.expect(tt.says)
			require.Empty(t, term.keptFiles("pygent-*"))
		})
	}
}

func TestPlainTakesNoAnswerAboutFilesThatWasTypedAhead(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t))
	term.expect("> ")
	term.send("!echo one >made.txt\n")
	term.expect("\n> ")
	term.send("/exit\nd\n")
	term.expect("Keep them?")
	term.expect("or [d]elete them: ")
	term.answers("k\n")
	require.Len(t, term.keptFiles("pygent-*/made.txt"), 1)
}

func TestPlainEndsWhenTheTerminalGoesAtTheQuestionAboutFiles(t *testing.T) {
	t.Parallel()
	term := leavesPlain(t, "echo one >made.txt")
	require.NoError(t, term.pty.Close())
	var exit interface{ ExitCode() int }
	require.ErrorAs(t, term.cmd.Wait(), &exit)
	require.Equal(t, 128+int(syscall.SIGHUP), exit.ExitCode())
}

func TestPlainAsksAboutNoFilesOfAWorkspaceThatStays(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t), "--cwd")
	term.expect("> ")
	term.send("!echo one >made.txt\n")
	term.expect("\n> ")
	term.send(ctrlD)
	require.Len(t, term.keptFiles("made.txt"), 1)
	require.NotContains(t, term.shown.String(), "temporary")
}
