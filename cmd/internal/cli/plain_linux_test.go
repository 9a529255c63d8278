package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// ctrlC and ctrlD are the bytes that a terminal sends for these keys.
const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

// terminal is the binary at a pseudo-terminal, and what the terminal was sent.
type terminal struct {
	t       *testing.T
	pty     *os.File
	cmd     *exec.Cmd
	history string // the file of the conversation

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int           // how much of it expect has passed
	more  chan struct{} // gets a value when something is shown
	done  chan struct{} // closed when the terminal hangs up
}

// openTerminal starts a local session with the server's model, at a terminal that
// can do nothing but print: the session is plain text.
func openTerminal(t *testing.T, server *pygenttest.Server, args ...string) *terminal {
	t.Helper()
	return openPlain(t, command(t, server.Env(), append([]string{"--no-docker"}, args...)...))
}

// openPlain starts a plain session that keeps its conversation.
func openPlain(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	history := filepath.Join(cmd.Dir, "history.json")
	cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+history, "TERM=dumb")
	term := startTerminal(t, cmd)
	term.history = history
	return term
}

// startTerminal starts a command at a pseudo-terminal.
func startTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	pty, tty := termtest.OpenPTY(t)
	cmd.Stdin = tty
	if cmd.Stdout == nil {
		cmd.Stdout = tty
	}
	if cmd.Stderr == nil {
		cmd.Stderr = tty
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	term := &terminal{t: t, pty: pty, cmd: cmd, more: make(chan struct{}, 1), done: make(chan struct{})}
	go term.watch()
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test has failed: its context kills the command
			_ = cmd.Wait()
		}
		pty.Close()
		<-term.done
	})
	return term
}

// watch collects what is shown until the terminal hangs up.
func (x *terminal) watch() {
	defer close(x.done)
	buf := make([]byte, 4096)
	for {
		n, err := x.pty.Read(buf)
		x.mu.Lock()
		x.shown.Write(buf[:n])
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// unstyled removes the command's own control sequences from what a terminal was
// sent, and its carriage returns.
var unstyled = strings.NewReplacer("\r\n", "\n", string(screen.PasteOn), "", string(screen.PasteOff), "", string(screen.Erase), "", string(screen.ClearLine), "")

// expect waits until want is shown after what was expected before.
func (x *terminal) expect(want string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	for {
		x.mu.Lock()
		text := unstyled.Replace(x.shown.String())
		at := strings.Index(text[x.seen:], want)
		if at >= 0 {
			x.seen += at + len(want)
		}
		x.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-x.more:
		case <-x.done:
			select {
			case <-x.more:
				continue // something was shown before it hung up
			default:
			}
			x.t.Fatalf("%q is never shown in:\n%s", want, text)
		case <-ctx.Done():
			x.t.Fatalf("%q is not shown in:\n%s", want, text)
		}
	}
}

func (x *terminal) send(keys string) {
	x.t.Helper()
	_, err := x.pty.WriteString(keys)
	require.NoError(x.t, err)
}

// types sends keys one by one, as a person does, and waits until each is shown.
func (x *terminal) types(keys string) {
	x.t.Helper()
	for _, key := range keys {
		x.send(string(key))
		if key >= ' ' || key == '\n' {
			x.expect(string(key))
		}
	}
}

// reads waits for as long as a person takes to read a question. What is typed
// before that is not an answer.
func (x *terminal) reads() { time.Sleep(2 * lineinput.AnswerDelay) }

// answers types an answer to the question that is shown.
func (x *terminal) answers(keys string) {
	x.t.Helper()
	x.reads()
	x.types(keys)
}

// leaves waits for the end of the session and returns its conversation, which
// every provider must accept.
func (x *terminal) leaves() []pygent.Message {
	x.t.Helper()
	require.NoError(x.t, x.cmd.Wait())
	return persontest.Conversation(x.t, x.history)
}

func TestPlainAsksBeforeCommandsRun(t *testing.T) {
	tests := []struct {
		answer string
		want   string // of the call's result
	}{
		{"y\n", "$ echo $((6*7)) is it\n42 is it\n"},
		{" YES \n", "42 is it\n"},
		{"a\n", "42 is it\n"},
		{"ok\ny\n", "42 is it\n"}, // neither yes nor no: asked again
		{"v\nn\n", "error: denied by the user"},
		{"n\n", "error: denied by the user"},
		{"\n", "error: denied by the user"},
		{"use python instead\n", "error: denied: the user says: use python instead"},
		{ctrlD, "error: denied: asking for approval failed: EOF"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q", tt.answer), func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see.")))
			term.expect("commands run locally")
			term.expect("/exit leaves.\n> ")
			term.send("go\n")
			for answer := range strings.Lines(tt.answer) {
				term.expect("Run this on your machine? $ echo $((6*7)) is it\n[y]es, [a]lways allow this exact command, or say why not: ")
				term.answers(answer)
			}
			term.expect("I see.\n> ")
			term.send("/exit\n")
			got := toolResults(term.leaves())
			require.Len(t, got, 1)
			require.Contains(t, got[0], tt.want)
		})
	}
}

func TestPlainDoesNotAskWhereThatWasDecided(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see.")), "-e", "PYGENT_CONFIRM_BASH=0")
	term.expect("> ")
	term.send("go\n")
	term.expect("» $ echo $((6*7)) is it\n  42 is it\nI see.\n> ")
	term.send(ctrlD)
	term.leaves()
}

func TestPlainShowsWhatACommandHides(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t, bash("rm -rf x\r\x1b[2Kecho harmless"), pygenttest.Text("I see.")))
	term.expect("> ")
	term.send("go\n")
	term.expect("Run this on your machine? $ rm -rf x␍␛[2Kecho harmless\n")
	term.expect("why not: ")
	term.answers("n\n")
	term.expect("I see.\n> ")
	term.send("/exit\n")
	term.leaves()
}

func TestPlainCtrlCInterruptsTheTurn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, bash("echo begun; touch begun; sleep 600"), pygenttest.Text("x").WithGate(nil), pygenttest.Text("Still here."))
	term := openTerminal(t, server, "-e", "PYGENT_CONFIRM_BASH=0", "--cwd")
	term.expect("> ")
	term.send("go\n")
	term.expect("» $ echo begun; touch begun; sleep 600\n")
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(term.cmd.Dir, "begun"))
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	term.send(ctrlC) // in a command
	term.expect("(interrupted)\n> ")
	term.send("again\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 2))
	term.send(ctrlC) // in a model call
	term.expect("(interrupted)\n> ")
	term.send("hello?\n")
	term.expect("Still here.\n> ")
	term.send("/exit\n")
	got := toolResults(term.leaves())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "begun\n")
	require.Contains(t, got[0], "may have taken effect")
}

func TestPlainCtrlCInterruptsTheQuestionForApproval(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("As you like.")))
	term.expect("> ")
	term.send("go\n")
	term.expect("why not: ")
	term.send(ctrlC)
	term.expect("\n  not run: interrupted by the user\n")
	term.expect("(interrupted)\n> ")
	term.send("say something\n") // not lost to the question
	term.expect("As you like.\n> ")
	term.send("/exit\n")
	got := toolResults(term.leaves())
	require.Len(t, got, 1)
	require.Equal(t, "not run: interrupted by the user", got[0], "nobody denied it")
	require.NotContains(t, got[0], "may have taken effect")
}

func TestPlainCtrlCTwiceLeaves(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	term.expect("> ")
	term.send(ctrlC)
	term.expect("(Ctrl-C again, or /exit, to leave)\n> ")
	term.send("hi\n") // the user stays after all
	term.expect("Hello.\n> ")
	term.send(ctrlC)
	term.expect("(Ctrl-C again, or /exit, to leave)\n> ")
	term.send(ctrlC)
	require.Len(t, term.leaves(), 3)
}

func TestPlainTakesLinesOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, length := range []int{4095, 4096, 100_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
			term.expect("> ")
			long := strings.Repeat("0123456789", length/10+1)[:length]
			term.send(long + "\n")
			term.expect("Hello.\n> ")
			term.send("/exit\n")
			require.Equal(t, long, term.leaves()[1].Text())
		})
	}
}

func TestPlainTakesAPasteOfManyLongLines(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three."))
	term := openTerminal(t, server)
	term.expect("> ")
	long := strings.Repeat("0123456789", 1000)
	term.send("1" + long + "\n2" + long + "\n3" + long + "\n")
	for _, answer := range []string{"One.", "Two.", "Three."} {
		term.expect("\n" + answer + "\n> ")
	}
	term.send("/exit\n")
	messages := term.leaves()
	require.Equal(t, "2"+long, messages[3].Text())
	require.Equal(t, "3"+long, messages[5].Text())
}

func TestPlainEditsTheLine(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	term.expect("> ")
	term.send("forget this\x15helo\x7flo wörld now\x17\x7f!\n")
	term.expect("Hello.\n> ")
	term.send("and this")
	term.expect("and this")
	term.send(ctrlC)
	term.expect("(Ctrl-C again, or /exit, to leave)\n> ")
	term.send("/exit\n")
	messages := term.leaves()
	require.Len(t, messages, 3)
	require.Equal(t, "hello wörld!", messages[1].Text())
}

func TestRunAtATerminalShowsTheAnswerOnce(t *testing.T) {
	t.Parallel()
	for name, replies := range map[string][]pygenttest.Reply{
		"a reply":            {pygenttest.Text("It is 42."), pygenttest.Call("stop", nil)},
		"words and a tool":   {pygenttest.TextAndCalls("It is 42.", bash("true")), pygenttest.Call("stop", map[string]any{"summary": "It is 42."})},
		"a summary":          {pygenttest.Call("stop", map[string]any{"summary": "It is 42."})},
		"repeated in a stop": {pygenttest.TextAndCalls("It is 42.", pygenttest.Call("stop", map[string]any{"summary": "It is 42."}))},
		"a question":         {pygenttest.Call("continue", map[string]any{"prompt": "It is 42.?"})},
		"before a question":  {pygenttest.Text("It is 42."), pygenttest.Call("continue", map[string]any{"prompt": "More?"})},
		"beside a question":  {pygenttest.TextAndCalls("It is 42.", pygenttest.Call("continue", map[string]any{"prompt": "More?"}))},
		"before another end": {pygenttest.Text("It is 42."), pygenttest.Call("stop", map[string]any{"summary": "All done."})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, pygenttest.NewServer(t, replies...), "run", "go")
			<-term.done
			want := 1
			if name == "words and a tool" { // the answer is shown once more at the end
				want = 2
			}
			require.Equal(t, want, strings.Count(term.shown.String(), "It is 42."), term.shown.String())
			_ = term.cmd.Wait()
		})
	}
}

func TestPlainIsPutBack(t *testing.T) {
	t.Parallel()
	for _, leave := range []string{"/exit\n", ctrlD, ""} {
		t.Run(fmt.Sprintf("%q", leave), func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, pygenttest.NewServer(t))
			term.expect("> ")
			require.Zero(t, term.mode().Lflag&(unix.ICANON|unix.ECHO))
			if leave == "" {
				require.NoError(t, term.cmd.Process.Signal(syscall.SIGTERM))
				require.Error(t, term.cmd.Wait())
				require.Equal(t, 128+int(syscall.SIGTERM), term.cmd.ProcessState.ExitCode())
			} else {
				term.send(leave)
				term.leaves()
			}
			require.EqualValues(t, unix.ICANON|unix.ECHO, term.mode().Lflag&(unix.ICANON|unix.ECHO))
		})
	}
}

// mode returns the settings of the terminal.
func (x *terminal) mode() *unix.Termios {
	x.t.Helper()
	return termtest.Modes(x.t, x.pty)
}

func TestPlainEndsAtItsEndOfInput(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, pygenttest.NewServer(t))
	term.expect("> ")
	term.send(ctrlD)
	term.expect("\n") // the shell's prompt gets a line of its own
	term.leaves()
}
