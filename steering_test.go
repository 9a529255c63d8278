package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// users returns the texts of the messages in the user's role.
func users(agent *pygent.Agent) []string {
	var texts []string
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleUser {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

func say(t *testing.T, agent *pygent.Agent, text string) string {
	t.Helper()
	id, err := agent.Say(chat.UserMessage(text))
	require.NoError(t, err)
	return id
}

func TestWhatIsSaidDuringACallIsHeardAfterItsResult(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	talk := pygent.Tool{Name: "talk", Description: "Talk", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		say(t, agent, "first")
		say(t, agent, "second")
		return &pygent.ToolResult{Content: "ok"}, nil
	}}
	call := pygenttest.Call("talk", map[string]any{})
	model := pygenttest.NewScriptedModel(pygenttest.Calls(call, call), stop)
	agent = quick(t, model, pygent.WithTools(talk))
	events := eventsOf(t, agent, "go")
	require.NoError(t, testkit.CheckStrictly(agent.History().Messages()))
	var heard []string
	for _, e := range onlyOf(events, pygent.EventUser) {
		heard = append(heard, e.ID+":"+e.Text)
	}
	require.Equal(t, []string{":go", "said-1:first", "said-2:second", "said-3:first", "said-4:second"}, heard)
	require.Equal(t, []string{"go", "first", "second", "first", "second"}, users(agent))
	require.Empty(t, agent.State().Unheard)
}

func TestARunThatTheModelEndsGoesOnWithWhatWasSaid(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]pygenttest.Reply{"a reply": pygenttest.Text("done"), "stop": stop} {
		t.Run(name, func(t *testing.T) {
			var agent *pygent.Agent
			model := pygenttest.NewScriptedModel(end, pygenttest.Text("that too"))
			agent = quick(t, model, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventMessage && e.Step == 1 {
					say(t, agent, "and this")
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, pygent.StatusReplied, result.Status)
			require.Equal(t, "that too", result.Summary)
			require.Equal(t, 2, result.Steps)
			require.Equal(t, []string{"go", "and this"}, users(agent))
			require.NoError(t, testkit.CheckStrictly(agent.History().Messages()))
		})
	}
}

func TestWhatIsSaidStaysForTheNextRun(t *testing.T) {
	t.Parallel()
	question := pygenttest.Call("continue", map[string]any{"prompt": "Which?"})
	for name, tt := range map[string]struct {
		end  pygenttest.Reply
		opts []pygent.RunOption
		want pygent.Status
	}{
		"a question": {question, nil, pygent.StatusAwaitingUser},
		"a limit":    {stop, []pygent.RunOption{pygent.MaxSteps(1)}, pygent.StatusStopped},
	} {
		t.Run(name, func(t *testing.T) {
			var agent *pygent.Agent
			model := pygenttest.NewScriptedModel(tt.end, stop)
			agent = quick(t, model, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventMessage && len(users(agent)) == 1 {
					say(t, agent, "and this")
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Status)
			require.Len(t, agent.State().Unheard, 1)
			_, err = agent.RunUntilStop(t.Context(), "last")
			require.NoError(t, err)
			require.Equal(t, []string{"go", "and this", "last"}, users(agent))
			require.NoError(t, testkit.CheckStrictly(agent.History().Messages()))
		})
	}
}

func TestUnsayTakesBack(t *testing.T) {
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel(stop))
	one, two := say(t, agent, "one"), say(t, agent, "two")
	require.True(t, agent.Unsay(one))
	require.False(t, agent.Unsay(one))
	require.Equal(t, two, agent.State().Unheard[0].ID)
	events := eventsOf(t, agent, "")
	require.Equal(t, []string{"two"}, users(agent))
	require.Empty(t, onlyOf(events, pygent.EventUnheard)[0].Unheard)
	require.False(t, agent.Unsay(two), "it was heard")
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel())
	for want, msg := range map[string]pygent.Message{
		"empty":            chat.UserMessage(" \n"),
		"of the system":    chat.SystemMessage("obey"),
		"of the tool":      chat.ToolMessage("c1", "result"),
		"no tool calls":    {Content: "hi", ToolCalls: []pygent.ToolCall{{ID: "c1"}}},
		"field of its own": {Content: "hi", Extra: map[string]json.RawMessage{"role": json.RawMessage(`"system"`)}},
	} {
		_, err := agent.Say(msg)
		require.ErrorContains(t, err, want)
	}
	for range 100 {
		say(t, agent, "hello?")
	}
	_, err := agent.Say(chat.UserMessage("hello?"))
	require.ErrorContains(t, err, "100 messages are queued")
	for _, s := range agent.State().Unheard {
		require.True(t, agent.Unsay(s.ID))
	}
	_, err = agent.Say(chat.UserMessage(strings.Repeat("x", 33<<20)))
	require.ErrorContains(t, err, "bytes, more than 33554432")
	large := strings.Repeat("x", 33<<20)
	for _, part := range []pygent.Part{{Text: large}, {ImageURL: large}, {FileName: "x.pdf", FileURL: large}} {
		_, err = agent.Say(chat.UserMessage("Look.", part))
		require.ErrorContains(t, err, "bytes, more than 33554432")
	}
	require.NoError(t, agent.Close())
	_, err = agent.Say(chat.UserMessage("hello?"))
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
}

func TestSayAtTheEndOfARunIsNeitherLostNorDoubled(t *testing.T) {
	t.Parallel()
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{Message: chat.AssistantMessage("done"), FinishReason: chat.FinishStop}, nil
	})
	agent := quick(t, model)
	const times = 500
	var want []string
	for i := range times {
		said := make(chan error, 1)
		go func() {
			_, err := agent.Say(chat.UserMessage(fmt.Sprint("said ", i)))
			said <- err
		}()
		_, err := agent.RunUntilStop(t.Context(), fmt.Sprint("run ", i), pygent.WithEndOnReply())
		require.NoError(t, err)
		require.NoError(t, <-said)
		want = append(want, fmt.Sprint("said ", i))
	}
	_, err := agent.RunUntilStop(t.Context(), "", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, want, slices.DeleteFunc(users(agent), func(s string) bool { return strings.HasPrefix(s, "run ") }))
}

func TestSubscribersGetEachEventOnce(t *testing.T) {
	t.Parallel()
	const runs = 20
	replies := make([]pygenttest.Reply, runs)
	for i := range replies {
		replies[i] = pygenttest.Text("a reply of some words")
	}
	agent := quick(t, pygenttest.NewScriptedModel(replies...))
	var subscribers sync.WaitGroup
	lasting := make([][]int64, 6)
	for i := range lasting {
		subscribers.Go(func() {
			for e, err := range agent.Subscribe(t.Context(), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if e.Type != pygent.EventText {
					lasting[i] = append(lasting[i], e.Seq)
				}
			}
		})
	}
	var want []int64
	for range runs {
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
			if e.Type != pygent.EventText {
				want = append(want, e.Seq)
			}
		}))
		require.NoError(t, err)
	}
	require.NoError(t, agent.Close())
	subscribers.Wait()
	for _, got := range lasting {
		require.Equal(t, want, onlyKnown(got, want))
		require.True(t, slices.IsSorted(got))
		require.Len(t, slices.Compact(got), len(got))
	}
}

// onlyKnown leaves out the events outside of runs.
func onlyKnown(got, want []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(got), func(seq int64) bool { return !slices.Contains(want, seq) })
}

func TestSubscribeAfterAState(t *testing.T) {
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Text("one"), pygenttest.Text("two")))
	_, err := agent.RunUntilStop(t.Context(), "first", pygent.WithEndOnReply())
	require.NoError(t, err)
	state := agent.State()
	require.Equal(t, pygent.ActivityIdle, state.Activity)
	require.Equal(t, 2, state.Messages)
	events := agent.Subscribe(t.Context(), state.Seq)
	_, err = agent.RunUntilStop(t.Context(), "second", pygent.WithEndOnReply())
	require.NoError(t, err)
	for e, err := range events {
		require.NoError(t, err)
		require.Equal(t, pygent.EventUser, e.Type)
		require.Equal(t, "second", e.Text)
		require.Equal(t, state.Messages+1, e.Messages)
		break
	}
	for _, after := range []int64{1 << 40, -1} {
		for _, err := range agent.Subscribe(t.Context(), after) {
			require.ErrorIs(t, err, pygent.ErrEventsGone)
		}
	}
}

func TestCloseEndsSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(noRuntime{}))
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, err := range agent.Subscribe(t.Context(), 0) {
				if err != nil {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		require.NoError(t, agent.Close())
		wg.Wait()
		for range agent.Subscribe(t.Context(), 0) {
			t.Error("there was no event")
		}
	})
}

func TestASubscriberMayCloseTheAgent(t *testing.T) {
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel())
	say(t, agent, "hello")
	for _, err := range agent.Subscribe(t.Context(), 0) {
		require.NoError(t, err)
		require.NoError(t, agent.Close())
	}
}

func TestStateTellsWhatTheAgentDoes(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var inTool, inModel pygent.State
	look := pygent.Tool{Name: "look", Description: "Look", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		inTool = agent.State()
		return &pygent.ToolResult{Content: "ok"}, nil
	}}
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		inModel = agent.State()
		if req.Messages[len(req.Messages)-1].Role == chat.RoleTool {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("done"), FinishReason: chat.FinishStop}, nil
		}
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: "look", Arguments: "{}"}), FinishReason: chat.FinishToolCalls}, nil
	})
	agent = quick(t, model, pygent.WithTools(look))
	before := agent.State()
	require.Equal(t, pygent.ActivityIdle, before.Activity)
	require.NotZero(t, before.Since)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, pygent.ActivityTool, inTool.Activity)
	require.Equal(t, "c1", inTool.Call.ID)
	require.Equal(t, 1, inTool.Step)
	require.Equal(t, pygent.ActivityModel, inModel.Activity)
	require.Nil(t, inModel.Call)
	require.Equal(t, 2, inModel.Step)
	after := agent.State()
	require.Equal(t, pygent.ActivityIdle, after.Activity)
	require.Zero(t, after.Step)
	require.Greater(t, after.Seq, inModel.Seq)
}

func TestSettingsChangeInALiveSession(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("one"), pygenttest.Text("two"))
	agent := quick(t, model, pygent.WithDisabledTools("bash"))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	seq := agent.State().Seq
	agent.SetPersona(pygent.Persona{Name: "Ada", Description: "who counts"})
	agent.Tools().Disable("write_file", "edit_file")
	require.NoError(t, agent.Tools().Enable("edit_file"))
	agent.SetApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return pygent.Decision{}, nil })
	require.NoError(t, agent.SetModel(nil, "m2"))
	require.ErrorContains(t, agent.Tools().Enable("write_file", "bash"), "enable bash: the agent was made with this tool disabled")
	settings := agent.State().Settings
	require.Equal(t, "Ada", settings.Persona.Name)
	require.Equal(t, "m2", settings.Model)
	require.True(t, settings.Approval)
	require.Equal(t, []string{"bash", "write_file"}, settings.Disabled)
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	last := model.Requests()[1]
	require.Contains(t, last.Messages[0].Text(), "Ada")
	require.False(t, slices.ContainsFunc(last.Tools, func(s chat.ToolSpec) bool { return s.Name == "write_file" || s.Name == "bash" }))
	require.NoError(t, agent.Close())
	var told []pygent.Settings
	for e, err := range agent.Subscribe(t.Context(), seq) {
		require.NoError(t, err)
		if e.Type == pygent.EventSettings {
			told = append(told, *e.Settings)
		}
	}
	require.GreaterOrEqual(t, len(told), 5)
	require.Equal(t, "Ada", told[0].Persona.Name)
	require.Equal(t, settings, told[len(told)-1])
}

func TestCallDeltasTellHowFarACallIs(t *testing.T) {
	t.Parallel()
	write := pygenttest.Call("write_file", map[string]any{"path": "notes.txt", "content": strings.Repeat("word ", 600)})
	srv := pygenttest.NewServer(t, pygenttest.Calls(write, write), stop)
	model, err := openai.New(openai.BaseURL(srv.URL()), openai.Key("k"))
	require.NoError(t, err)
	agent := newAgent(t, model)
	seen := map[int]chat.CallDelta{}
	for _, e := range onlyOf(eventsOf(t, agent, "go"), pygent.EventCallDelta) {
		if e.Step > 1 {
			continue
		}
		d := *e.CallDelta
		require.GreaterOrEqual(t, d.Bytes, seen[d.Index].Bytes)
		require.Equal(t, "write_file", d.Tool)
		seen[d.Index] = d
	}
	require.Len(t, seen, 2)
	require.Equal(t, "notes.txt", seen[0].Path)
	require.Equal(t, "notes.txt", seen[1].Path)
}

func TestWhatIsTooLargeToBeSaidIsToldSo(t *testing.T) {
	t.Parallel()
	agent := quick(t, pygenttest.NewScriptedModel())
	_, err := agent.Say(chat.UserMessage(strings.Repeat("x", 32<<20+1)))
	require.EqualError(t, err, "say: the message has 33554433 bytes, more than 33554432")
	say(t, agent, "there is room for others")
}

func TestWhatAClosedHistoryDoesNotTakeWaits(t *testing.T) {
	t.Parallel()
	h := chat.NewHistory()
	agent := quick(t, pygenttest.NewScriptedModel(), pygent.WithHistory(h))
	first, second := say(t, agent, "one"), say(t, agent, "two")
	require.NoError(t, h.Close())
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorIs(t, err, chat.ErrHistoryClosed)
	unheard := agent.State().Unheard
	require.Len(t, unheard, 2)
	require.Equal(t, []string{first, second}, []string{unheard[0].ID, unheard[1].ID})
	require.True(t, agent.Unsay(first))
}

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
		if req.Messages[len(req.Messages)-1].Role == chat.RoleAssistant {
			bad++
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: "hm"}}, nil
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
			id, err := agent.Say(chat.UserMessage("x"))
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

func TestWhatWasSaidIsToldAlsoWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	fail := true
	store := &pygenttest.MemoryStore{Before: func(_ context.Context, method string) error {
		if method == "Append" && fail {
			return errors.New("no disk")
		}
		return nil
	}}
	h, err := chat.LoadHistory(t.Context(), store)
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

func TestPartsGoWithTheMessageFromEveryEntryPoint(t *testing.T) {
	t.Parallel()
	image, err := chat.FilePart("a.png", []byte(pngFile))
	require.NoError(t, err)
	pdf, err := chat.FilePart("b.pdf", []byte(pdfFile))
	require.NoError(t, err)
	for name, start := range map[string]func(a *pygent.Agent, msg string, opts ...pygent.RunOption) error{
		"Step": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			_, err := a.Step(t.Context(), msg, o...)
			return err
		},
		"RunUntilStop": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			_, err := a.RunUntilStop(t.Context(), msg, o...)
			return err
		},
		"Events": func(a *pygent.Agent, msg string, o ...pygent.RunOption) error {
			for _, err := range a.Events(t.Context(), msg, o...) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(pygenttest.Call("stop", map[string]any{})).Loop()
			agent := newAgent(t, model)
			require.NoError(t, start(agent, "What is this?", pygent.WithParts(image), pygent.WithParts(pdf)))
			require.NoError(t, start(agent, "", pygent.WithParts(image)))
			messages := agent.History().Messages()
			require.Equal(t, []pygent.Part{{Text: "What is this?"}, image, pdf}, messages[1].Parts)
			require.Equal(t, chat.UserMessage("", image).Parts, messages[4].Parts)
			require.True(t, model.Requests()[1].Messages[1].HasImages())
		})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("hi")))
	require.NoError(t, agent.History().Append(chat.UserMessage("hello")))
	_, err = agent.Resume(t.Context(), pygent.WithParts(image))
	require.EqualError(t, err, "option WithParts: a resumed run has no new message")
}

func TestPartsAreNoOptionOfAnAgent(t *testing.T) {
	t.Parallel()
	_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithParts(pygent.Part{Text: "x"}))
	require.EqualError(t, err, "option WithParts is for one run, not for an agent")
}

func TestARecordingThatCannotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://example.com/a.wav", "data:audio/wav,abc", "data:audio/wav;base64,", "data:image/png;base64,AAAA"} {
		agent := newAgent(t, pygenttest.NewScriptedModel())
		_, err := agent.RunUntilStop(t.Context(), "What is said?", pygent.WithParts(pygent.Part{AudioURL: url}))
		require.ErrorContains(t, err, "want a recording as a URL that begins with data:audio/ and has base64")
		require.Zero(t, agent.History().Len(), "the next run can be sent")
	}
}

func TestAMessageTakesTheFilesAlongThatItMentions(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for name, content := range map[string]string{
		"main.go": "package main\n", "a b.txt": "blank\n", "pic.png": pngFile, "dir/inside.txt": "x", "program": "\x7fELF\x00\x01",
		"large.txt": strings.Repeat("x", 256<<10+1), "large.png": pngFile + strings.Repeat("x", 300<<10), "huge.png": pngFile + strings.Repeat("x", 6<<20),
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(ws, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(ws, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(ws, "out")))
	agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel())

	for text, want := range map[string]string{
		"nothing, ada@example.org":     "",
		"see @main.go, and @./main.go": "main.go: The file main.go:",
		`@"a b.txt"!`:                  "a b.txt: The file a b.txt:",
		"@dir":                         "dir/: dir: a directory with 1 entry",
		"@pic.png @large.png":          "pic.png: data:image/png;base64 large.png: data:image/png;base64",
		"@program":                     "program: The content of the file program does not go along: it is no text, image, PDF file or recording that can (6 B). Look at it with your tools.",
		"@large.txt":                   "large.txt: The content of the file large.txt does not go along: it is too large (262.1 kB). Look at it with your tools.",
		"@huge.png":                    "huge.png: The content of the file huge.png does not go along: it is no text,",
		`@"main.go " @.\main.go @file://` + ws + "/main.go": "main.go: The file main.go:",
		"@~/main.go @file:///etc/passwd":                    "missing ~/main.go file:///etc/passwd",
		"@none.txt @ada @out @../x\x1bz":                    `missing none.txt ada out "../x\x1bz"`,
	} {
		parts, missing, err := agent.AttachMentioned(t.Context(), text)
		require.NoError(t, err, text)
		var got []string
		for _, p := range parts {
			head, _, _ := strings.Cut(p.Text+p.ImageURL, ",iVBOR")
			got = append(got, p.FileName+": "+head)
		}
		if len(missing) > 0 {
			got = append(got, "missing "+strings.Join(missing, " "))
		}
		require.True(t, strings.HasPrefix(strings.Join(got, " "), want) && (want != "" || got == nil), "%s: %q", text, got)
	}
}

func TestAPlainSessionTakesFilesAlong(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(ws, "main.go"), []byte("package main\n"), 0o600))
	const message = "read @main.go and @none.go"
	for name, test := range map[string]struct {
		first pygent.Message
		input string
		said  string
	}{
		"typed":         {pygent.Message{}, message + "\n", message + "The file main.go:\n```\npackage main\n```"},
		"given":         {chat.UserMessage(message), "", message + "The file main.go:\n```\npackage main\n```"},
		"given in part": {chat.UserMessage("", pygent.Part{Text: message}), "", message},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel(pygenttest.Text("It is short.")),
				pygent.WithIO(strings.NewReader(test.input), &out), pygent.WithFirstMessage(test.first))
			require.NoError(t, agent.RunInteractive(t.Context()))
			_, shown, _ := strings.Cut(out.String(), "\n")
			if test.said != message {
				require.Equal(t, "(with main.go)\n! not in the workspace: none.go\nIt is short.\n", shown)
			}
			require.Equal(t, []string{test.said}, users(agent))
		})
	}
}

func TestAPlainSessionTakesDraggedImagesAlong(t *testing.T) {
	t.Parallel()
	pic := filepath.Join(t.TempDir(), "My Shot.png")
	require.NoError(t, os.WriteFile(pic, []byte(pngFile), 0o600))
	text := filepath.Join(filepath.Dir(pic), `My\ Shot.png`)
	if filepath.Separator != '/' {
		text = `"` + pic + `"`
	}
	var out strings.Builder
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Nice.")), pygent.WithIO(strings.NewReader(text+" what is this\n"), &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "(with "+pic+")")
	said := agent.History().Messages()[1]
	require.True(t, strings.HasPrefix(said.Parts[1].ImageURL, "data:image/png;base64,"))
}

// runtimeIn is a local runtime with a workspace that exists.
func runtimeIn(t *testing.T, ws string) pygent.Runtime {
	t.Helper()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(ws))
	require.NoError(t, err)
	return rt
}

const pdfFile = "%PDF-1.7\nrest"
