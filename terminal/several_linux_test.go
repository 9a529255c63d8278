package terminal_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// sitting is a session of this process at a terminal of its own.
type sitting struct {
	t     *testing.T
	pty   *os.File
	tty   *os.File
	ended chan error
	seen  bytes.Buffer
}

// sitHere starts a session of this process.
func sitHere(t *testing.T, answer string) *sitting {
	t.Helper()
	s := &sitting{t: t, ended: make(chan error, 1)}
	s.pty, s.tty = termtest.OpenPTY(t)
	t.Cleanup(func() { s.pty.Close(); s.tty.Close() })
	agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()), pygent.WithIO(s.tty, s.tty),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text(answer))))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		err := agent.RunInteractive(ctx)
		if closing := agent.Close(); err == nil {
			err = closing
		}
		s.ended <- err
	}()
	t.Cleanup(stop)
	return s
}

// until reads what the terminal gets until it has a text.
func (s *sitting) until(text string) {
	s.t.Helper()
	buf := make([]byte, 1<<12)
	for !strings.Contains(s.seen.String(), text) {
		require.NoError(s.t, s.pty.SetReadDeadline(time.Now().Add(time.Minute)))
		n, err := s.pty.Read(buf)
		require.NoError(s.t, err, "no %q in\n%q", text, s.seen.String())
		s.seen.Write(buf[:n])
	}
}

func (s *sitting) types(text string) {
	s.t.Helper()
	_, err := s.pty.WriteString(text)
	require.NoError(s.t, err)
}

// Two agents of a program may have a session each, at terminals of their own: each
// terminal gets what is its own, and the end of one session is none of the other.
func TestTwoSessionsInAProcess(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	one, two := sitHere(t, "The first answers."), sitHere(t, "The second answers.")
	before := untouched(t)
	for _, s := range []*sitting{one, two} {
		s.until("Ready")
		require.NotEqual(t, before, termtest.Modes(t, s.pty))
	}
	two.types("to the second\r")
	two.until("The second answers.")
	two.until("Done")
	two.types("\x04")
	require.NoError(t, persontest.Next(t, two.ended))
	require.Equal(t, before, termtest.Modes(t, two.pty))
	require.NotEqual(t, before, termtest.Modes(t, one.pty), "the other session goes on")
	one.types("to the first\r")
	one.until("The first answers.")
	one.until("Done")
	one.types("\x04")
	require.NoError(t, persontest.Next(t, one.ended))
	require.Equal(t, before, termtest.Modes(t, one.pty))
	require.NotContains(t, one.seen.String(), "second")
	require.NotContains(t, two.seen.String(), "first")
}

// Fifty tasks are named in a window of 24 rows before they end with the session.
func TestLeavingFiftyTasks(t *testing.T) {
	t.Parallel()
	var begin []pygenttest.Reply
	for i := range 50 {
		begin = append(begin, pygenttest.Call("delegate_task", map[string]any{"prompt": fmt.Sprintf("Count %d", i)}))
	}
	gate := make(chan struct{})
	defer close(gate)
	server := pygenttest.NewServer(t, pygenttest.Calls(begin...), pygenttest.Text("Begun.")).On("Count", pygenttest.Text("Never.").WithGate(gate))
	p := sit(t, server, noQuestions, "PYGENT_MAX_TASKS=50")
	p.Type("go\n")
	p.Await("Begun.", "Ready", "and 46 other tasks")
	p.Key("ctrl+d")
	p.Await("50 tasks"+wouldStop, "❯ 1. Go back to the session", "2. Leave")
	p.answers("l")
	p.left()
	p.requireGivenBack()
}

// hostileName is what nobody should be called.
var hostileName = strings.Repeat("n\u202e\x1b]0;x\x07ame ", 1000)

func init() {
	deploy := pygent.NewTool("deploy", hostileName[:500], func(context.Context, pygent.Runtime, struct{}) (string, error) { return "deployed", nil })
	deploy.Title, deploy.NeedsApproval = hostileName, true
	setups["hostile"] = []pygent.Option{pygent.WithTools(deploy), pygent.WithCommands(userCommands()...)}
}

// Names of others can be long and hostile: they take a line at most, and the session
// goes on below them.
func TestHostileNamesTakeNoRoom(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("deploy", nil).WithGate(gate), pygenttest.Text("Hello.")), asSetup+"=hostile", "PYGENT_PERSONA_NAME="+hostileName, "PYGENT_MODEL="+strings.Repeat("n", 9000))
	p.Await("Ready")
	p.Type("/tools\n")
	p.Await("write_file", "Ready")
	p.Type("hi\n")
	p.Await("Waiting for n", " s · Ctrl-C interrupts")
	persontest.Give(t, gate)
	p.Await("Allow this call of deploy on your machine?", "│ n<U+202E>", "❯ 3. No")
	p.answers("y")
	p.Await("Hello.", "Done", "Ready", "· context ")
	p.leaves()
	p.requireGivenBack()
	raw := string(p.Raw())
	for _, bad := range []string{"\x1b]0;x", "\u202e", "\x07"} {
		require.NotContains(t, raw, bad)
	}
	require.Less(t, len(p.Lines()), 200, p.All())
}
