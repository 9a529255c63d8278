// Package persontest is what the tests share that play a person in a session: those of
// the face and those of the command.
package persontest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// Soon returns a context that ends when a test has waited long enough for what must
// happen. A test that waits in vain then fails by itself, and not with all others of
// its package.
func Soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Next returns the next value of a channel, for which it waits as long.
func Next[T any](t testing.TB, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-Soon(t).Done():
		require.FailNow(t, "nothing came")
	}
	return value
}

// Give sends a value on a channel, such as the gate of a reply, as soon as it is taken,
// for which it waits as long.
func Give(t testing.TB, to chan<- struct{}) {
	t.Helper()
	select {
	case to <- struct{}{}:
	case <-Soon(t).Done():
		require.FailNow(t, "nobody took it")
	}
}

// Conversation returns what a session has left in a history, which needs no repair
// and which every provider must accept.
func Conversation(t testing.TB, path string) []pygent.Message {
	t.Helper()
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	defer h.Close()
	require.Empty(t, h.Repairs())
	if h.Len() > 0 {
		require.NoError(t, pygenttest.CheckConversation(h.Messages()))
	}
	return h.Messages()
}

// Results returns the results of the tool calls in a conversation.
func Results(messages []pygent.Message) (texts []string) {
	for _, m := range messages {
		if m.Role == chat.RoleTool {
			texts = append(texts, m.Text())
		}
	}
	return texts
}
