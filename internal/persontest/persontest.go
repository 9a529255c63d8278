// Package persontest is what the tests share that play a person in a session: those of
// the face and those of the command.
package persontest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// Conversation returns what a session has left in a history, which needs no repair
// and which every provider must accept.
func Conversation(t testing.TB, path string) []pygent.Message {
	t.Helper()
	h, err := pygent.OpenHistory(path)
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
		if m.Role == pygent.RoleTool {
			texts = append(texts, m.Text())
		}
	}
	return texts
}
