package console

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func piped(t *testing.T, input string) *Console {
	c := New(strings.NewReader(input), io.Discard, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Open(t.Context()))
	return c
}

func TestPipedLinesAreReadAsTheyAre(t *testing.T) {
	c := piped(t, "one\r\n"+strings.Repeat("x", maxLine+1)+"\nthree")
	for _, want := range []struct {
		text string
		err  error
	}{{"one", nil}, {"", ErrLongLine}, {"three", nil}, {"", io.EOF}} {
		text, err := c.Ask(t.Context(), "> ", nil)
		require.ErrorIs(t, err, want.err)
		require.Equal(t, want.text, text)
	}
}

func TestNobodyAnswersThroughAPipe(t *testing.T) {
	c := piped(t, "yes\n")
	_, _, err := c.Choose(t.Context(), Question{Prompt: "Really? "}, "yes")
	require.ErrorIs(t, err, ErrNobody)
	text, err := c.Ask(t.Context(), "> ", nil)
	require.NoError(t, err)
	require.Equal(t, "yes", text, "it is the next message")
}

func TestAWaitForALineIsInterrupted(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	c := New(in, io.Discard, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Open(t.Context()))
	interrupts := make(chan os.Signal, 1)
	interrupts <- os.Interrupt
	_, err := c.Ask(t.Context(), "> ", interrupts)
	require.ErrorIs(t, err, ErrInterrupted)
	go w.Write([]byte("a\n"))
	text, err := c.Ask(t.Context(), "> ", interrupts)
	require.NoError(t, err)
	require.Equal(t, "a", text, "the read goes on")
}

func TestChoices(t *testing.T) {
	words := []string{"yes", "session", "always"}
	for _, tt := range []struct {
		answers      []string
		choice, said string
	}{
		{[]string{"y", "Y", "yes", "YES"}, "yes", ""},
		{[]string{"s", "session"}, "session", ""},
		{[]string{"a", "A", "always"}, "always", ""},
		{[]string{"", "n", "No"}, No, ""},
		{[]string{"use the cache"}, No, "use the cache"},
		{[]string{"ye", "yy", "all", "never", "ok"}, "", ""},
	} {
		for _, answer := range tt.answers {
			choice, said := choose(answer, words)
			require.Equal(t, tt.choice, choice, answer)
			require.Equal(t, tt.said, said, answer)
		}
	}
	choice, _ := choose("a", []string{"yes"})
	require.Empty(t, choice, "what is not offered is unclear")
}
