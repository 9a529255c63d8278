package openai_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Short names for what other packages' tests use, too.
var (
	newModel   = testkit.NewModel
	newAgent   = testkit.NewLocalAgent
	newAgentOn = testkit.NewAgentOn
	stop       = testkit.Stop
	results    = testkit.Results
)

type nowhere = testkit.Nowhere

func texts(messages []pygent.Message) (all []string) {
	for _, m := range messages {
		all = append(all, m.Text())
	}
	return all
}

func approving(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
	return pygent.Decision{Allow: true}, nil
}

// noticesOf makes a run and returns the texts of its notices.
func noticesOf(t *testing.T, agent *pygent.Agent) (notices []string, result *pygent.Result) {
	t.Helper()
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventNotice {
			notices = append(notices, e.Text)
		}
	}))
	require.NoError(t, err)
	return notices, result
}
