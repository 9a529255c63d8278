package pygent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// pausedRuntime answers nothing before the model is asked until it is resumed.
type pausedRuntime struct {
	pygent.Runtime
	resumed chan struct{}
}

func (r pausedRuntime) ReadFile(ctx context.Context, path string) ([]byte, error) {
	select {
	case <-r.resumed:
		return r.Runtime.ReadFile(ctx, path)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestARuntimeThatDoesNotAnswerIsSaidToHoldTheRunUp(t *testing.T) {
	t.Parallel()
	rt := pausedRuntime{localRuntime(t), make(chan struct{})}
	var told []string
	agent, err := pygent.New(pygent.LendRuntime(rt), pygent.WithModel(pygenttest.NewScriptedModel(stop)),
		pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventNotice:
				told = append(told, e.Text)
				close(rt.resumed)
			case pygent.EventModelStart:
				told = append(told, "the model is asked")
			}
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"the workspace does not answer yet; the model is asked when it does, or without it", "the model is asked"}, told)
}
