package pygent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASessionLeavesWhatSetAskHasSet(t *testing.T) {
	t.Parallel()
	asks := func(text string) FaceUser {
		return FaceUser{Answer: func(context.Context, AskRequest) (Answer, error) { return Answer{Text: text}, nil }}
	}
	agent := &Agent{}
	agent.deciders.opts = &agent.opts
	agent.deciders.approver.Begin(FaceUser{}, nil, FaceUser.over)
	agent.deciders.approver.Enter(asks("session"), nil)()
	require.Nil(t, agent.deciders.asker())
	end := agent.deciders.approver.Enter(asks("session"), nil)
	agent.SetAsk(asks("program").Answer)
	end()
	answer, err := agent.deciders.asker()(t.Context(), AskRequest{})
	require.NoError(t, err)
	require.Equal(t, "program", answer.Text)
}
