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
	require.Same(t, first[0], second[0])
	require.NotSame(t, first[0], changed[0])
}
