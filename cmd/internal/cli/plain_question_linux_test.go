package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func writeFile(path, content string) pygenttest.Reply {
	return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
}

// asked opens a session in which the model makes calls that need approval.
func asked(t *testing.T, args []string, replies ...pygenttest.Reply) *terminal {
	t.Helper()
	if !slices.Contains(args, "--cwd") { // what is left in a temporary workspace is asked about
		args = append([]string{"--workspace", t.TempDir()}, args...)
	}
	term := openTerminal(t, pygenttest.NewServer(t, append(replies, pygenttest.Text("I see."))...), args...)
	term.expect("> ")
	term.send("go\n")
	return term
}

// ends leaves the session and returns the results of the calls.
func (x *terminal) ends() []string {
	x.t.Helper()
	x.expect("I see.\n> ")
	x.send("/exit\n")
	return toolResults(x.leaves())
}

func TestPlainWhatWasTypedAheadAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."))
	term := openTerminal(t, server)
	term.expect("> ")
	term.send("go\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	term.send("y\n")
	term.send("yes\ny\n")
	close(gate)
	term.expect("why not: ")
	term.answers("not now please\n")
	require.Equal(t, []string{"error: denied: the user says: not now please"}, term.ends())
}

func TestPlainLinesTypedBlindAnswerNoQuestion(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."))
	term := openTerminal(t, server)
	term.expect("> ")
	term.types("go\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	term.send("say wh") // the question comes in the middle of a word
	close(gate)
	term.expect("why not: ")
	term.types("at\n")
	term.expect("(that line was begun before the question; type the answer)\n[y]es, ")
	term.expect("why not: ")
	term.types("y\n") // the next line is typed blindly too
	term.expect("(that was typed before the question could be read; type the answer)\n[y]es, ")
	term.expect("why not: ")
	term.answers("n\n")
	require.Equal(t, []string{"error: denied by the user"}, term.ends())
}

// The shell of an editor, whose TERM is dumb, sends each line as a whole.
func TestPlainALineSentAsAWholeAnswers(t *testing.T) {
	for name, tt := range map[string]struct{ line, want string }{
		"yes":      {"y\n", "42\n"},
		"a word":   {"yes\n", "42\n"},
		"always":   {"a\n", "42\n"},
		"no":       {"n\n", "error: denied by the user"},
		"a reason": {"not now please\n", "error: denied: the user says: not now please"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := asked(t, nil, bash("echo $((6*7))"))
			term.expect("why not: ")
			term.reads()
			term.send(tt.line)
			require.Contains(t, term.ends()[0], tt.want)
		})
	}
}

func TestPlainPastesAnswerNoQuestion(t *testing.T) {
	for name, paste := range map[string]string{
		"lines":                "make\ny\ny\n",
		"a carriage return":    "make\ry\r",
		"marked":               "\x1b[200~y\x1b[201~",
		"marked, with its end": "\x1b[200~y\n\x1b[201~",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := asked(t, nil, bash("echo $((6*7))"))
			term.expect("why not: ")
			term.send(paste)
			term.expect("(that came all at once, as a paste does; type the answer)\n[y]es, ")
			term.expect("why not: ")
			term.answers("n\n")
			require.Equal(t, []string{"error: denied by the user"}, term.ends())
		})
	}
}

// The conversation goes where the output was redirected to, as plain text. Prompts
// and questions stay at the terminal.
func TestQuestionsNeverGetIntoARedirectedOutput(t *testing.T) {
	for name, redirect := range map[string]func(*exec.Cmd, *os.File){
		"a file":            func(cmd *exec.Cmd, out *os.File) { cmd.Stdout = out },
		"a pipe, as to tee": func(cmd *exec.Cmd, out *os.File) { cmd.Stdout = struct{ io.Writer }{out} },
		"both outputs":      func(cmd *exec.Cmd, out *os.File) { cmd.Stdout, cmd.Stderr = out, out },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			question := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"red", "blue"}})
			server := pygenttest.NewServer(t, bash("echo $((6*7)) is it; echo one >made.txt"), question, pygenttest.Text("I see."))
			cmd := command(t, server.Env(), "--no-docker")
			out, err := os.Create(filepath.Join(cmd.Dir, "out"))
			require.NoError(t, err)
			defer out.Close()
			redirect(cmd, out)
			cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+filepath.Join(cmd.Dir, "history.json"), "TERM=xterm-256color")
			term := startTerminal(t, cmd)
			term.history = filepath.Join(cmd.Dir, "history.json")
			term.expect("/exit leaves.\nThe output is redirected. Questions are asked here.\n> ")
			term.types("go\n")
			term.expect("Run this on your machine? $ echo $((6*7)) is it; echo one >made.txt\n[y]es, [a]lways allow this exact command, or say why not: ")
			term.answers("y\n")
			term.expect("? Which one?\n  1. red\n  2. blue\n> ")
			term.types("2\n")
			term.expect("> ")
			term.types("/resune\n")
			term.expect("error: no command /resune, did you mean /resume? /help lists the commands\n> ")
			term.send("/exit\n")
			term.expect("Keep them?")
			term.expect("[d]elete them: ")
			term.answers("k kept\n")
			term.expect("(the files are in ")
			messages := term.leaves()
			require.FileExists(t, filepath.Join(cmd.Dir, "kept", "made.txt"))
			require.Contains(t, toolResults(messages)[0], "42 is it")
			said, err := os.ReadFile(out.Name())
			require.NoError(t, err)
			require.Contains(t, string(said), "commands run locally")
			require.Contains(t, string(said), "  42 is it\n")
			require.Contains(t, string(said), "I see.\n")
			for _, not := range []string{"> ", "Run this", "[y]es", "Which one", "red", "error:", "Type a message", "Keep them", "\x1b"} {
				require.NotContains(t, string(said), not)
			}
		})
	}
}

func TestNobodyIsAskedWithoutATerminalToShowItAt(t *testing.T) {
	for name, redirect := range map[string]func(cmd *exec.Cmd, tty, in, out *os.File){
		"every output is a file": func(cmd *exec.Cmd, tty, _, out *os.File) { cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, out, out },
		"the input is a file":    func(cmd *exec.Cmd, tty, in, out *os.File) { cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, tty },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see."), pygenttest.Text("Yes."))
			cmd := command(t, server.Env(), "--no-docker", "-e", "PYGENT_CONFIRM_BASH=1")
			history := filepath.Join(cmd.Dir, "history.json")
			cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+history, "TERM=xterm-256color")
			const typed = "go\ny\n/exit\n"
			file := filepath.Join(cmd.Dir, "in")
			require.NoError(t, os.WriteFile(file, []byte(typed), 0o600))
			in, err := os.Open(file)
			require.NoError(t, err)
			defer in.Close()
			out, err := os.Create(filepath.Join(cmd.Dir, "out"))
			require.NoError(t, err)
			defer out.Close()
			pty, tty := termtest.OpenPTY(t)
			defer pty.Close()
			redirect(cmd, tty, in, out)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a controlling terminal
			_, err = pty.WriteString(typed)
			require.NoError(t, err)
			require.NoError(t, cmd.Run())
			require.NoError(t, tty.Close())
			said, err := os.ReadFile(out.Name())
			require.NoError(t, err)
			require.Contains(t, string(said), "I see.\n")
			for _, not := range []string{"> ", "[y]es", "\x1b"} {
				require.NotContains(t, string(said), not)
			}
			h, err := chat.OpenHistory(history)
			require.NoError(t, err)
			defer h.Close()
			require.Contains(t, toolResults(h.Messages())[0], "denied")
		})
	}
}

func TestPlainQuestionsShowWhatIsFarAway(t *testing.T) {
	t.Parallel()
	term := asked(t, nil, bash("echo ok"+strings.Repeat("\n", 40)+"echo bad"+strings.Repeat(" ", 300)+"# worse"))
	term.expect("Run this on your machine? 41 lines, 364 characters:\n" +
		" 1 │ $ echo ok\n" +
		"   │ … 39 blank lines …\n" +
		"41 │ echo bad… 300 spaces …# worse\n" +
		"[y]es, [a]lways allow this exact command, or say why not: ")
	term.answers("n\n")
	term.ends()
}

func TestPlainQuestionsFitTheTerminalAndShowTheRest(t *testing.T) {
	t.Parallel()
	var script []string
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		script = append(script, "echo "+string(c))
	}
	term := asked(t, nil, bash(strings.Join(script, "\n")))
	term.expect("Run this on your machine? 26 lines, ")
	term.expect(" 1 │ $ echo a\n")
	term.expect("\n… 9 rows are not shown …\n")
	term.expect("26 │ echo z\n[v]iew it all, [y]es, ")
	term.expect("why not: ")
	term.answers("v\n")
	term.expect(" 1 │ $ echo a\n")
	term.expect("18 │ echo r\n(page 1 of 2; v shows the next)\n[v]iew it all, ")
	term.expect("why not: ")
	term.answers("v\n")
	term.expect("19 │ echo s\n")
	term.expect("26 │ echo z\n(page 2 of 2; v shows the next)\n")
	term.expect("why not: ")
	term.answers("y\n")
	require.Contains(t, term.ends()[0], "\ny\nz\n")
}

func TestPlainAlwaysCoversWhatItSays(t *testing.T) {
	t.Parallel()
	term := asked(t, nil, pygenttest.Calls(bash("echo one"), bash("echo one"), bash("echo two"),
		writeFile("a.txt", "1"), writeFile("./a.txt", "2"), writeFile("b.txt", "3"), pygenttest.Call("edit_file", map[string]any{"path": "a.txt", "old_text": "2", "new_text": "4"})))
	term.expect("$ echo one\n[y]es, [a]lways allow this exact command, or say why not: ")
	term.answers("always\n")
	term.expect("Run this on your machine? $ echo two\n")
	term.expect("why not: ")
	term.answers("n\n")
	term.expect("Write this file on your machine? 1 line, 1 character:\n  │ write_file \"a.txt\"\n1 │ 1\n[y]es, [a]lways allow all writes to this file, or say why not: ")
	term.answers("a\n")
	term.expect("  │ write_file \"b.txt\"\n")
	term.expect("why not: ")
	term.answers("n\n")
	got := term.ends()
	require.Contains(t, got[0], "one\n")
	require.Contains(t, got[1], "one\n")
	require.Equal(t, "error: denied by the user", got[2])
	require.Equal(t, "replaced ./a.txt, which had 1 byte (1 line) and now has 1 byte (1 line)", got[4])
	require.Equal(t, "error: denied by the user", got[5])
	require.Equal(t, "edited a.txt at line 1\n1\t4\n", got[6])
}

func TestPlainWritesBelowGitAreAskedAboutAndNamed(t *testing.T) {
	t.Parallel()
	term := asked(t, []string{"--cwd", "-e", "PYGENT_CONFIRM_BASH=0"},
		writeFile("a.txt", "1"), writeFile(".git/hooks/pre-commit", "#!/bin/sh\nid"), bash("printf '[core]\\n\\tfsmonitor = ./x\\n' > .git/config"))
	term.expect("This can change what git runs on your machine. Allow it? 2 lines, ")
	term.expect("  │ write_file \".git/hooks/pre-commit\"\n1 │ #!/bin/sh\n2 │ id\n[y]es, or say why not: ")
	term.answers("a\n") // "always" is not offered here
	term.expect("[y]es, or say why not: ")
	term.answers("y\n")
	term.expect("! files that can make git run programs on this machine have changed: ")
	term.expect(`/.git/config" is new, `)
	term.expect(`/.git/hooks/pre-commit" is new. Check them before`)
	term.send("/exit\n")
	require.Len(t, toolResults(term.leaves()), 3)
	_, err := os.Stat(filepath.Join(term.cmd.Dir, ".git/hooks/pre-commit"))
	require.NoError(t, err)
}
