package terminal_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// panicking is what panics in a program with a session.
func panicking() []pygent.Option {
	tool := pygent.NewTool("break_down", "Panic", func(context.Context, pygent.Runtime, struct{}) (string, error) { panic("a tool") })
	tool.ReadOnly = true
	command := pygent.Command{Name: "collapse", Summary: "panic", Run: func(context.Context, *pygent.Agent, string, io.Writer) error { panic("a command") }}
	return []pygent.Option{pygent.WithTools(tool), pygent.WithCommands(append(userCommands(), command)...)}
}

// untouched returns the mode of a terminal that no program has changed.
func untouched(t *testing.T) *unix.Termios {
	t.Helper()
	pty, tty := termtest.OpenPTY(t)
	defer pty.Close()
	defer tty.Close()
	return termtest.Modes(t, pty)
}

// requireGivenBack checks that the terminal is as it was before the session.
func (p *person) requireGivenBack() {
	p.t.Helper()
	require.Equal(p.t, untouched(p.t), p.Modes())
	s := p.Screen()
	require.False(p.t, s.Paste)
	require.False(p.t, s.Hidden)
	require.False(p.t, s.Alternate)
	require.Zero(p.t, s.X, "the shell's prompt gets a line of its own")
	require.NotContains(p.t, s.Text(), "Ready", "the live area is gone")
	p.requireKeysPopped()
}

// requireKeysPopped checks that the keys are told as before the session.
func (p *person) requireKeysPopped() {
	p.t.Helper()
	raw := string(p.Raw())
	require.Equal(p.t, strings.Count(raw, "\x1b[>1u"), strings.Count(raw, "\x1b[<u"))
}

func TestTheTerminalIsPutBack(t *testing.T) {
	editor := program(t, `printf '\033[?1049h\033[?1000h\033[?25lediting'; stty raw -echo; kill -9 $$`)
	for name, tt := range map[string]struct {
		setup string
		do    func(p *person)
		fails bool
	}{
		"after a panic of an event handler": {setup: "handler", do: func(p *person) {
			p.Type("go\n")
			p.Await("panic: a handler", "Ready")
			p.Key("ctrl+d")
		}},
		"after a panic of a tool": {do: func(p *person) {
			p.Type("go\n")
			p.Await("panic: a tool", "I see.", "Ready")
			p.Key("ctrl+d")
		}},
		"after a panic of a command": {do: func(p *person) {
			p.Type("/collapse\n")
			p.Await("✗ /collapse: panic: a command", "Ready")
			p.Key("ctrl+d")
		}},
		"after a command that leaves a mess": {do: func(p *person) {
			p.Type("/breaks\n")
			p.Await("✗ /breaks: panic: oops", "Ready")
			require.Contains(p.t, p.Screen().Text(), "› /breaks", "what was above is still there")
			p.Key("ctrl+d")
		}},
		"after an editor that is killed": {do: func(p *person) {
			p.Type("/cmd seq 100 110\n")
			p.Await("\n110\n", "exit 0", "Ready")
			p.Key("ctrl+g")
			p.Await("Ready · the draft is unchanged")
			s := p.Screen()
			require.False(p.t, s.Alternate)
			require.False(p.t, s.Hidden)
			require.Contains(p.t, s.Text(), "\n110\n", "what was above is still there")
			p.Key("ctrl+d")
		}},
		"when the person leaves":            {do: func(p *person) { p.Key("ctrl+d") }},
		"when the program ends the session": {do: func(p *person) { p.Signal(syscall.SIGUSR1) }},
		"at work, when the program ends the session": {do: func(p *person) {
			p.Type("/cmd sleep 600\n")
			p.Await("Running /cmd")
			p.Signal(syscall.SIGUSR1)
		}},
		"when the process is told to quit": {fails: true, do: func(p *person) { p.Signal(syscall.SIGQUIT) }},
		"when the process is told to quit beside a command": {fails: true, do: func(p *person) {
			p.Type("/hangs\n")
			p.Await("hanging")
			p.Signal(syscall.SIGQUIT)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, pygenttest.Call("break_down", nil), pygenttest.Text("I see."))
			p := sit(t, server, asSetup+"="+cmp.Or(tt.setup, "panics"), "VISUAL='"+editor+"'")
			require.NotEqual(t, untouched(t), p.Modes())
			require.True(t, p.Screen().Paste)
			tt.do(p)
			err := p.Wait()
			p.requireEnd(tt.fails, err)
		})
	}
}

// requireEnd checks how the session has ended, and that the terminal is as before.
func (p *person) requireEnd(fails bool, err error) {
	p.t.Helper()
	if !fails {
		require.NoError(p.t, err, p.All())
		p.requireGivenBack()
		return
	}
	require.Error(p.t, err)
	require.Contains(p.t, p.All(), "SIGQUIT: quit", "the report of the Go runtime")
	require.Equal(p.t, untouched(p.t), p.Modes())
	s := p.Screen()
	require.False(p.t, s.Paste)
	require.False(p.t, s.Hidden)
}

// atShell starts a session from a shell with job control, and returns its process.
func atShell(t *testing.T) (p *person, session int) {
	t.Helper()
	p = &person{t: t, history: t.TempDir() + "/history.json", state: t.TempDir()}
	own := p.command(pygenttest.NewServer(t, pygenttest.Text("Hello.")), "PS1=shell$ ", "INPUTRC=/dev/null", "NAME="+os.Args[0])
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = own.Dir, own.Env
	p.Terminal = termtest.Start(t, cmd, 80, 24)
	p.Await("shell$ ")
	p.Type("bind 'set enable-bracketed-paste off'; clear\n")
	p.Until("a clear screen", func(s termtest.Screen) bool {
		return !s.Paste && strings.TrimSpace(s.Text()) == "shell$"
	})
	p.Type("\"$NAME\"\n")
	p.Await("› ", "Ready")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	require.NoError(t, err)
	session, err = strconv.Atoi(strings.TrimSpace(string(children)))
	require.NoError(t, err)
	return p, session
}

// back types to the shell, and goes on with the session.
func (p *person) back(stops int) {
	p.t.Helper()
	p.Until("the shell", func(termtest.Screen) bool { return strings.Count(string(p.Raw()), "Stopped") == stops })
	p.Type("echo at $((stops=" + strconv.Itoa(stops) + ")) $COLUMNS\n")
	p.Await("at "+strconv.Itoa(stops)+" ", "shell$ ")
	p.Type("clear; fg\n")
	p.Until("the session, and not what it had drawn before", func(s termtest.Screen) bool {
		text := s.Text()
		return !strings.Contains(text, "shell$ ") && strings.Contains(text, "› a draft") && strings.Contains(text, "Ready")
	})
}

func TestASessionIsSuspended(t *testing.T) {
	t.Parallel()
	p, session := atShell(t)
	p.Type("a draft")
	p.Await("› a draft")
	stops := 0
	for range 3 {
		p.Key("ctrl+z")
		stops++
		p.Until("the shell", func(termtest.Screen) bool { return strings.Count(string(p.Raw()), "Stopped") == stops })
		require.False(t, p.Screen().Paste)
		p.requireKeysPopped()
		p.Resize(60+stops, 20)
		p.back(stops)
		require.NoError(t, syscall.Kill(session, syscall.SIGTSTP))
		stops++
		p.Until("the shell", func(termtest.Screen) bool { return strings.Count(string(p.Raw()), "Stopped") == stops })
		require.False(t, p.Screen().Paste)
		p.requireKeysPopped()
		p.back(stops)
	}
	require.NoError(t, syscall.Kill(session, syscall.SIGSTOP)) // which no program can handle
	stops++
	p.back(stops)
	p.Type(" goes on")
	p.Await("› a draft goes on")
	p.Key("enter")
	p.Await("Hello.", "Ready")
	require.NotContains(t, p.All(), "no shell to suspend to")
	p.Key("ctrl+d")
	p.Until("the shell", func(s termtest.Screen) bool { return strings.HasSuffix(strings.TrimSpace(s.Text()), "shell$") })
	p.Type("echo $((40+2)); exit 0\n")
	require.NoError(t, p.Wait())
	require.Contains(t, p.All(), "\n42\n")
	p.requireKeysPopped()
}

// The shell is the only one that could go on with a session that was stopped.
func TestASessionWithoutAShellIsNotSuspended(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Type("a draft")
	p.Key("ctrl+z")
	p.Await("no shell to suspend to", "› a draft")
	p.Signal(syscall.SIGCONT)
	p.Type(" goes on")
	p.Await("› a draft goes on")
	require.Equal(t, 1, strings.Count(p.All(), "Ready"))
	p.Key("ctrl+c")
	p.leaves()
	p.requireGivenBack()
}

func TestKeysAreTypedWhileSessionsEnd(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t))
			p.Send(strings.Repeat("x", i*50) + "\x15\x04" + strings.Repeat("y\x1b[A", 50))
			require.NoError(t, p.Wait(), p.All())
			p.requireGivenBack()
		})
	}
}
