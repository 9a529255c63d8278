package pygent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestWhatWasSaidIsToldAlsoWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	fail := true
	store := &pygenttest.MemoryStore{Before: func(_ context.Context, method string) error {
		if method == "Append" && fail {
			return errors.New("no disk")
		}
		return nil
	}}
	h, err := pygent.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	var heard []string
	agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Text("ok")), pygent.WithHistory(h), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventUser {
			heard = append(heard, e.ID)
		}
	}))
	id := say(t, agent, "listen")
	_, err = agent.RunUntilStop(t.Context(), "")
	require.Error(t, err)
	fail = false
	_, err = agent.RunUntilStop(t.Context(), "", pygent.WithEndOnReply())
	require.NoError(t, err)
	t.Log(users(agent), agent.State().Unheard)
	require.Equal(t, []string{id}, heard)
}
