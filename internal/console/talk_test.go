package console

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func talkOf(input string, out io.Writer) *Talk {
	return NewTalk(New(strings.NewReader(input), out, slog.New(slog.DiscardHandler)))
}

// written is what was written, each time.
type written []string

func (w *written) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestTalkPassesOnMessages(t *testing.T) {
	var out strings.Builder
	talk := talkOf("one\n\n  two \nleave\nnot read\n", &out)
	defer talk.Open(t.Context())()
	var heard []string
	require.NoError(t, talk.Hold(t.Context(), func(_ context.Context, message string) error {
		heard = append(heard, message)
		if message == "leave" {
			return ErrLeave
		}
		return errors.New("no " + message)
	}))
	require.Equal(t, []string{"one", "two", "leave"}, heard)
	require.Equal(t, "error: no one\nerror: no two\n", out.String())
}

func TestTalkEndsWithTheInput(t *testing.T) {
	talk := talkOf("one", io.Discard)
	defer talk.Open(t.Context())()
	require.NoError(t, talk.Hold(t.Context(), func(context.Context, string) error { return nil }))
}

func TestTwoInterruptsEndATalk(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	var out strings.Builder
	talk := NewTalk(New(in, &out, slog.New(slog.DiscardHandler)))
	defer talk.Open(t.Context())()
	talk.interrupts <- os.Interrupt
	talk.interrupts <- os.Interrupt
	require.NoError(t, talk.Hold(t.Context(), func(context.Context, string) error { return nil }))
	require.Equal(t, "(Ctrl-C again, or /exit, to leave)\n", out.String())
}

func TestAnInterruptEndsWhatIsDone(t *testing.T) {
	var out strings.Builder
	talk := talkOf("", &out)
	talk.interrupts <- os.Interrupt
	goesOn := talk.Do(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.True(t, goesOn)
	require.Equal(t, "(interrupted)\n", out.String())
}

func TestOptionsAreChosenByNumber(t *testing.T) {
	var out written
	talk := talkOf("", &out)
	talk.Offer("Which?", "red", "blue")
	require.Equal(t, written{"? Which?\n  1. red\n  2. blue\n"}, out, "written at once, so that no news comes between")
	for message, want := range map[string]string{"1": "red", "2": "blue", "3": "3", "0": "0", "green": "green"} {
		require.Equal(t, want, talk.Chosen(message))
	}
	require.True(t, talk.Offers())
	talk.Offer("")
	require.False(t, talk.Offers())
	require.Equal(t, "1", talk.Chosen("1"))
}
