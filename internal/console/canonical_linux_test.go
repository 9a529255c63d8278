package console

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/testkit/termtest"
)

// shown is an output that is no file, as a program may give to [New]. The terminal
// then collects lines itself.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

// await waits until a text has been shown so many times.
func (s *shown) await(t *testing.T, times int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		s.mu.Lock()
		all := s.text.String()
		s.mu.Unlock()
		if strings.Count(all, text) >= times {
			return
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			t.Fatalf("%q is not shown in:\n%s", text, all)
		}
	}
}

func TestATerminalThatCollectsLinesAnswersNoQuestionTooEarly(t *testing.T) {
	pty, tty := termtest.OpenPTY(t)
	defer tty.Close()
	defer pty.Close()
	out := &shown{more: make(chan struct{}, 1)}
	c := New(tty, out, slog.New(slog.DiscardHandler))
	defer c.Open(t.Context())()
	require.True(t, c.Person())
	says := func(keys string) {
		_, err := pty.WriteString(keys)
		require.NoError(t, err)
	}
	says("y\n") // typed ahead
	answered := make(chan string)
	go func() {
		answer, err := c.Question(t.Context(), Question{Head: "Run this?", Prompt: "yes or no: "})
		if err != nil {
			answer = err.Error()
		}
		answered <- answer
	}()
	out.await(t, 1, "yes or no: ")
	says("y\ny\n")
	out.await(t, 1, "(that came all at once")
	out.await(t, 2, "yes or no: ")
	says("y\n")
	out.await(t, 1, "(that was typed before the question could be read")
	out.await(t, 3, "yes or no: ")
	time.Sleep(2 * lineinput.AnswerDelay) // as long as a person takes to read the question
	says("n\n")
	require.Equal(t, "n", <-answered)
}
