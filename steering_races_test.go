package pygent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// Who subscribes from a state misses nothing: it says no less than the events up
// to its number.
func TestAStateIsNotOlderThanItsNumber(t *testing.T) {
	t.Parallel()
	for range 50 {
		var events []pygent.Event
		agent := quick(t, pygenttest.NewScriptedModel(), pygent.OnEvent(func(e pygent.Event) { events = append(events, e) }))
		var said sync.WaitGroup
		var over atomic.Bool
		said.Go(func() {
			defer over.Store(true)
			for range 100 {
				say(t, agent, "x")
			}
		})
		var states []pygent.State
		for !over.Load() {
			states = append(states, agent.State())
		}
		said.Wait()
		require.NoError(t, agent.Close()) // waits for the handler
		for _, s := range states {
			if s.Seq > 0 {
				require.GreaterOrEqual(t, len(s.Unheard), len(events[s.Seq-1].Unheard))
			}
		}
	}
}

func TestTheLastSettingsEventSaysWhatIsSet(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last pygent.Settings
	n := 0
	agent := quick(t, pygenttest.NewScriptedModel(), pygent.OnEvent(func(e pygent.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == pygent.EventSettings {
			last, n = *e.Settings, n+1
		}
	}))
	rounds := 5000
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { assert.NoError(t, agent.SetModel(nil, fmt.Sprint(round, i))) })
		}
		wg.Wait()
		require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return n == 4*(round+1) }, 10*time.Second, 10*time.Microsecond)
		require.Equal(t, agent.State().Settings.Model, last.Model, "round %d", round)
	}
}

// A message that is taken back just before it would be heard leaves no
// conversation that ends with the model's words.
func TestTakingBackLeavesALegalConversation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes messages back at random")
	}
	t.Parallel()
	var bad int
	var agent *pygent.Agent
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		if req.Messages[len(req.Messages)-1].Role == pygent.RoleAssistant {
			bad++
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: pygent.RoleAssistant, Content: "hm"}}, nil
	})
	agent = quick(t, model)
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
			}
			id, err := agent.Say(pygent.UserMessage("x"))
			if err == nil {
				agent.Unsay(id)
			}
		}
	})
	for range 20 {
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxReplies(1000), pygent.MaxSteps(300))
		require.NoError(t, err)
	}
	close(stopped)
	wg.Wait()
	require.Zero(t, bad)
}

func TestKeptEventsAreBoundedWithChanges(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 30<<10)
	run := func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "ok", Bash: &pygent.BashResult{Output: text},
			Changes: []pygent.FileChange{{Path: "a", Before: text, After: text}}}, nil
	}
	var replies []pygenttest.Reply
	for i := range 100 {
		replies = append(replies, pygenttest.Call("change", map[string]any{}), pygenttest.Text(fmt.Sprint(i)))
	}
	model := pygenttest.NewScriptedModel(replies...)
	agent := quick(t, model, pygent.WithTools(pygent.NewTool("change", "Change", run)))
	agent.Subscribe(t.Context(), 0)
	for range 100 {
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
	}
	require.NoError(t, agent.Close())
	kept := 0
	for e, err := range agent.Subscribe(t.Context(), agent.State().Seq-900) {
		if err != nil {
			t.Log(err)
			return // the oldest are gone: the bound holds
		}
		if e.Output != nil {
			for _, c := range e.Output.Changes {
				kept += len(c.Before) + len(c.After)
			}
		}
	}
	require.Less(t, kept, 2<<20)
	require.NotZero(t, kept)
}
