package pygent_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

type tenant struct{}

// sightings collect the tenant that each part of a task finds in its context.
type sightings struct {
	mu   sync.Mutex
	seen map[string]any
}

func (s *sightings) note(ctx context.Context, where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, ok := pygent.CallFrom(ctx); ok && info.Task == "" {
		where = "parent's " + where
	}
	s.seen[where] = ctx.Value(tenant{})
}

// watched returns the options of an agent that asks about its tool look, and
// whose parts note what they find.
func (s *sightings) watched(model pygent.Model) []pygent.Option {
	look := plainTool("look", func(t *pygent.Tool) {
		t.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			s.note(ctx, "tool")
			_, limited := ctx.Deadline()
			return &pygent.ToolResult{Content: map[bool]string{true: "limited", false: "unlimited"}[limited]}, nil
		}
	})
	return []pygent.Option{
		pygent.WithModel(pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			s.note(ctx, "model")
			return model.Chat(ctx, req)
		})),
		pygent.WithTools(look), pygent.WithApprovalFor("look"),
		pygent.WithApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			s.note(ctx, "approval")
			return pygent.Decision{Allow: true}, nil
		}),
	}
}

func TestValuesOfTheCallerReachATask(t *testing.T) {
	t.Parallel()
	s := &sightings{seen: map[string]any{}}
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", pygenttest.Call("look", nil), stop)
	agent := newAgentOn(t, hollow{}, nil, s.watched(model)...)
	_, err := agent.RunUntilStop(context.WithValue(t.Context(), tenant{}, "Ada"), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Equal(t, map[string]any{"parent's model": "Ada", "model": "Ada", "tool": "Ada", "approval": "Ada"}, s.seen)
}

func TestTaskHasTheValuesOfWhoSendsButNotTheEnd(t *testing.T) {
	t.Parallel()
	s := &sightings{seen: map[string]any{}}
	m, err := pygent.NewTaskManager(pygent.TaskAgents(s.watched(pygenttest.NewScriptedModel(pygenttest.Call("look", nil), stop, pygenttest.Call("look", nil), stop))...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	begin := func(name string) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithValue(t.Context(), tenant{}, name), time.Hour)
	}
	ctx, cancel := begin("Ada")
	id, err := m.StartTask(ctx, "go", hollow{})
	require.NoError(t, err)
	cancel()
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.Equal(t, map[string]any{"model": "Ada", "tool": "Ada", "approval": "Ada"}, s.seen)

	ctx, cancel = begin("Grace")
	_, err = m.Send(ctx, id, "again")
	require.NoError(t, err)
	cancel()
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State, status.String())
	require.Equal(t, map[string]any{"model": "Grace", "tool": "Grace", "approval": "Grace"}, s.seen)
}
