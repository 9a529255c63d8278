package chat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every call sends all messages, so what was computed for a message is kept
// with it.
func TestMessagesAreReadOnceToBeSent(t *testing.T) {
	t.Parallel()
	m, err := UserMessage("Go.").encoded()
	require.NoError(t, err)
	first, err := encodeMessages([]Message{m})
	require.NoError(t, err)
	m.Role = RoleSystem
	changed, err := encodeMessages([]Message{m})
	require.NoError(t, err)
	m.Role = RoleUser
	second, err := encodeMessages([]Message{m})
	require.NoError(t, err)
	require.Same(t, first.At(0), second.At(0))
	require.NotSame(t, first.At(0), changed.At(0))
}

// A request with ten thousand messages takes no more memory than one with ten.
func TestMessagesOfAHistoryAreNotCopiedToBeSent(t *testing.T) {
	t.Parallel()
	messages := NewHistory(UserMessage("Go."), UserMessage("On.")).Conversation()
	sent, err := encodeMessages(messages)
	require.NoError(t, err)
	require.Same(t, &messages[0], &sent.(encodedMessages)[0])
}
