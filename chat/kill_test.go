//go:build !race

// These processes are killed where they have no goroutine but those that every run has.
// A process with the race detector takes long to start, and opens what they wrote slowly.

package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
)

const historyChildEnv = "PYGENT_TEST_HISTORY_CHILD"

// TestHistoryChild is the process that TestHistorySurvivesKill kills. It
// appends until it dies, and reports each message that Append has accepted.
// Without its environment variable it does nothing.
func TestHistoryChild(t *testing.T) {
	t.Parallel()
	path := os.Getenv(historyChildEnv)
	if path == "" {
		return
	}
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	filler := strings.Repeat("x", 20_000) // many pages, so that a kill can interrupt a write
	for i := h.Len(); ; i++ {
		require.NoError(t, h.Append(chat.UserMessage(fmt.Sprint(i, " ", filler))))
		if i%10 == 5 {
			require.NoError(t, h.SetSystem(fmt.Sprint("system ", i)))
			i++ // SetSystem may have added a message: keep the numbers rising
		}
		fmt.Printf("accepted %d\n", i)
	}
}

func TestHistorySurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	for round := range 8 {
		accepted := testkit.KillAfter(t, "TestHistoryChild", historyChildEnv+"="+path, 5+3*round)

		h, err := chat.OpenHistory(path)
		require.NoError(t, err, "the lock died with its holder")
		msgs := h.Messages()
		var last int
		_, err = fmt.Sscan(msgs[len(msgs)-1].Content, &last)
		require.NoError(t, err)
		require.GreaterOrEqual(t, last, accepted-1, "an accepted message is lost")
		require.Empty(t, keptOf(t, path))
		require.NoError(t, h.Close())
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, json.Valid(data))
	}
}

const compactionChildEnv = "PYGENT_TEST_COMPACTION_CHILD"

// TestCompactionChild is the process that TestACompactionSurvivesKill kills: it works
// and compacts until it dies, and reports each request. Without its environment
// variable it does nothing.
func TestCompactionChild(t *testing.T) {
	t.Parallel()
	path := os.Getenv(compactionChildEnv)
	if path == "" {
		return
	}
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	n := h.Len()
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		n++
		fmt.Printf("accepted %d\n", n)
		if strings.HasPrefix(req.Messages[1].Text(), "<record>") {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("The work so far is summed up here.")}, nil
		}
		call := chat.ToolCall{ID: fmt.Sprint("c", n), Name: "spill", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", call)}, nil
	})
	agent := newAgentOn(t, nowhere{}, model, pygent.WithHistory(h), pygent.WithTools(testkit.Spill(4_000)), pygent.WithContextWindow(8_000))
	_, err = agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(10_000), pygent.MaxToolCalls(10_000))
	require.NoError(t, err)
}

func TestACompactionSurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	compacted := false
	for round := range 5 {
		testkit.KillAfter(t, "TestCompactionChild", compactionChildEnv+"="+path, 20+7*round)

		h, err := chat.OpenHistory(path)
		require.NoError(t, err)
		require.NoError(t, testkit.CheckStrictly(h.Conversation()))
		require.Less(t, len(jsonOf(t, h.Conversation())), 60_000, "what was compacted is known")
		require.Greater(t, len(jsonOf(t, h.Messages())), len(jsonOf(t, h.Conversation())))
		for _, e := range h.Entries() {
			compacted = compacted || e.Compaction != nil
		}
		require.NoError(t, h.Close())
	}
	require.True(t, compacted)
}
