package terminal_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestCtrlCGetsOutOfAPasteWithoutAnEnd(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Send("\x1b[200~the end is lost")
	p.Type("hello\n")
	p.pauses() // a person sees that nothing happens
	p.Key("ctrl+c")
	p.pauses()
	p.Type("hi\n")
	p.Await("Hello.", "Ready")
	require.Equal(t, "hi", p.leaves()[1].Text())
}

// unread starts a session at a terminal whose window takes nothing. What the person
// types must be short.
func (p *person) unread(server *pygenttest.Server, env ...string) (cmd *exec.Cmd, pty *os.File) {
	pty, tty := termtest.OpenPTY(p.t)
	cmd = p.command(server, env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(p.t, cmd.Start())
	require.NoError(p.t, tty.Close())
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); pty.Close() })
	return cmd, pty
}

// A session goes on, with an empty draft, after events that it missed because the
// window did not take the output.
func TestASessionGoesOnAfterEventsThatItMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("prints megabytes")
	}
	// Few answers with many calls each, because every request sends the earlier results again.
	var replies []pygenttest.Reply
	for i := range 6 {
		var calls []pygenttest.Reply
		for j := range 10 {
			calls = append(calls, bash(fmt.Sprintf("seq -f '%%0200g' %d 400", 10*i+j)))
		}
		replies = append(replies, pygenttest.Calls(calls...))
	}
	server := pygenttest.NewServer(t, append(replies, pygenttest.Text("The end."))...)
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	cmd, pty := p.unread(server, "PYGENT_CONFIRM_BASH=0", "PYGENT_MAX_STEPS=100")
	var seen bytes.Buffer
	buf := make([]byte, 1<<16)
	until := func(text string) {
		searched := 0 // up to here the text does not begin
		for !bytes.Contains(seen.Bytes()[searched:], []byte(text)) {
			searched = max(0, seen.Len()-len(text))
			require.NoError(t, pty.SetReadDeadline(time.Now().Add(time.Minute)))
			n, err := pty.Read(buf)
			if err != nil {
				require.NoError(t, err, "no %q in\n%q", text, seen.String())
			}
			seen.Write(buf[:n])
		}
	}
	until("Ready")
	_, err := pty.WriteString("go\r")
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	require.NoError(t, server.WaitRequests(ctx, len(replies)+1))
	until("some output is not shown")
	until("Done")
	seen.Reset()
	_, err = pty.WriteString("\x0c") // draws all again
	require.NoError(t, err)
	until("Ready")
	_, err = pty.WriteString("\x04")
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, pty) }()
	require.NoError(t, cmd.Wait())
	require.NotContains(t, seen.String(), "› go", "the draft is empty")
}

// The end of a key's sequence that comes late, as over a slow line, is no answer. A
// session that had no processor between both halves for as long as people pause takes
// the second one for a key of its own, and is tried again.
func TestHalfAKeyAnswersNothing(t *testing.T) {
	for name, halves := range map[string][2]string{"up": {"\x1b[", "A"}, "F3": {"\x1bO", "R"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for tried := 0; !halvesAnswerNothing(t, halves); tried++ {
				require.Less(t, tried, 3)
			}
		})
	}
}

func halvesAnswerNothing(t *testing.T, halves [2]string) bool {
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.reads()
	p.Send(halves[0])
	time.Sleep(lineinput.AnswerDelay / 4) // longer than a sequence is waited for
	p.Send(halves[1])
	p.Until("what becomes of it", func(s termtest.Screen) bool {
		text := s.Text() // of a slow machine, which has both halves at once, another item is selected
		return strings.Contains(text, "that key does not answer") || strings.Contains(text, "too early") || strings.Contains(text, "❯ 2. Always") ||
			strings.Contains(text, "why not: ") || strings.Contains(text, "I see.")
	})
	p.pauses()
	switch text := p.Screen().Text(); {
	case strings.Contains(text, "I see."):
		p.leaves()
		return false
	case strings.Contains(text, "why not: "):
		p.answers("\r")
		p.Await("I see.", "Ready")
		p.leaves()
		return false
	}
	p.answers("n")
	p.Await("I see.", "Ready")
	require.Equal(t, []string{"error: denied by the user"}, results(p.leaves()))
	return true
}
