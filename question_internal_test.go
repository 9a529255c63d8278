package pygent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASessionLeavesWhatSetAskHasSet(t *testing.T) {
	t.Parallel()
	asks := func(text string) AskFunc {
		return func(context.Context, AskRequest) (Answer, error) { return Answer{Text: text}, nil }
	}
	agent := &Agent{}
	agent.setAskFor(asks("session"))()
	require.Nil(t, agent.asker())
	end := agent.setAskFor(asks("session"))
	agent.SetAsk(asks("program"))
	end()
	answer, err := agent.asker()(t.Context(), AskRequest{})
	require.NoError(t, err)
	require.Equal(t, "program", answer.Text)
}
