package pygent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// forgetful is a store that fails to keep the mark of a compaction, once.
type forgetful struct {
	pygenttest.MemoryStore
	failed bool
}

func (f *forgetful) Append(ctx context.Context, entries ...pygent.HistoryEntry) error {
	for _, e := range entries {
		if e.Compaction != nil && !f.failed {
			f.failed = true
			return errors.New("the disk is full")
		}
	}
	return f.MemoryStore.Append(ctx, entries...)
}

// A mark that the store has not is not lost: the next run goes on with the same
// conversation, and so does whoever loads it then.
func TestACompactionThatTheStoreFailsToKeep(t *testing.T) {
	store := &forgetful{}
	history, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	server := worker(t, 12, pygenttest.Text("summed up")).Window(24_000)
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithHistory(history),
		pygent.WithTools(spill(6_000)), pygent.WithContextWindow(24_000))
	result, err := agent.RunUntilStop(t.Context(), "do the work")
	require.ErrorContains(t, err, "the disk is full")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.NoError(t, pygenttest.CheckConversation(history.Conversation()))
	result, err = agent.RunUntilStop(t.Context(), "go on")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	again, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, jsonOf(t, history.Conversation()), jsonOf(t, again.Conversation()))
	require.Equal(t, jsonOf(t, history.Messages()), jsonOf(t, again.Messages()))
}

// A run that ends while the model writes the summary leaves no part of a
// compaction, and the next one makes it.
func TestACompactionThatIsInterruptedLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	summaries := 0
	server := worker(t, 60).Window(8_000).On("<record>", pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		if summaries++; summaries == 1 {
			cancel()
		}
		return pygenttest.Text("summed up")
	})).RepeatLast()
	all, collect := compactions()
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(2_000)),
		pygent.WithContextWindow(8_000), collect)
	result, err := agent.RunUntilStop(ctx, "do the work", pygent.MaxSteps(70))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, pygent.StatusCancelled, result.Status)
	marks := 0
	for _, e := range agent.History().Entries() {
		if e.Compaction != nil {
			marks++
			require.Empty(t, e.Compaction.Summary)
		}
	}
	require.Len(t, *all, marks)
	result, err = agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(70))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "summed up")
	require.Contains(t, jsonOf(t, agent.History().Conversation()), "go on")
}
