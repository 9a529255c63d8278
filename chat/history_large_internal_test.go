//go:build !race

package chat

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent/internal/mediabudget"
)

// What is sent has at most 8 MiB of images; the size that a run goes by counts all
// that were ever shown.
func TestTheSizeOfAConversationLacksImagesThatAreLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(make([]byte, 3<<20))
	h := NewHistory(UserMessage("go"))
	for range 8 {
		require.NoError(t, h.Append(Message{Role: RoleUser, Parts: []Part{{Text: mediabudget.OfResults(false)}, {ImageURL: url}}}))
	}
	sent := 0
	for _, m := range h.Conversation() {
		for _, p := range m.Parts {
			sent += len(p.Text) + len(p.ImageURL)
		}
	}
	require.Less(t, h.bytes(), 2*sent)
}
