package sandbox_test

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
)

func TestAConsumerThatEndsItsGoroutineGetsTheNextEvents(t *testing.T) {
	seen := make(chan string)
	events := sandbox.NewEvents(func(e sandbox.Event) {
		seen <- e.Text
		runtime.Goexit()
	}, slog.New(slog.DiscardHandler))
	for _, text := range []string{"one", "two", "three"} {
		events.Send(sandbox.Event{Kind: sandbox.Lost, Text: text})
	}
	for _, text := range []string{"one", "two", "three"} {
		require.Equal(t, text, <-seen)
	}
	events.Close()
}
