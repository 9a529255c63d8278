package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// What is listed of a session that is killed is what session.json has at that moment.
func TestASessionIsListedWithItsMessagesWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var seen []int
	look := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		seen = append(seen, listed(t, dir)[0].Messages)
		return callBash("true")
	})
	agent := keptAgent(t, dir, "1abc", pygent.WithModel(pygenttest.NewScriptedModel(look, stop)))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(look, stop), ""))
	}
	require.NoError(t, agent.Close())
	require.Equal(t, []int{1, 6}, seen)
}
