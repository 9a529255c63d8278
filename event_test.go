package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestEventsTellTheRun(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Looking.", callBash("echo hi")).WithReasoning("hm"),
		pygenttest.Overloaded(), stop)
	agent := newAgent(t, model)
	var types []pygent.EventType
	var seq int64
	var text string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		require.Greater(t, e.Seq, seq)
		seq = e.Seq
		if e.Type == pygent.EventText {
			text += e.Text
		}
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		_, err = json.Marshal(e)
		require.NoError(t, err)
	}
	require.Equal(t, "Looking.", text)
	require.Equal(t, []pygent.EventType{"user", "step", "model_start", "reasoning", "text", "call_delta", "message", "tool_call", "tool_start", "output", "tool_done",
		"step", "model_start", "retry", "model_start", "call_delta", "message", "tool_call", "tool_start", "tool_done", "run_end"}, types)
}

func TestLeavingEventsEndsTheRun(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("sleep 600"), pygenttest.Text("hi")))
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventToolCall {
			break
		}
	}
	result, err := agent.Step(t.Context(), "still there?")
	require.NoError(t, err)
	require.Equal(t, "hi", result.Message.Text())
}

func TestEventsEndWithTheError(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.QuotaExceeded()))
	var last error
	for _, err := range agent.Events(t.Context(), "go") {
		last = err
	}
	var api *pygent.APIError
	require.ErrorAs(t, last, &api)
	require.Equal(t, 429, api.Status)
}

// counted is a tool that counts its calls.
func counted(n *atomic.Int32) pygent.Tool {
	return pygent.Tool{Name: "count", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		n.Add(1)
		return nil, nil
	}}
}

func TestLeavingEventsAtACallKeepsTheToolFromRunning(t *testing.T) {
	t.Parallel()
	for range 50 { // repeat, since the run might only sometimes go ahead
		var ran atomic.Int32
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("count", nil), pygenttest.Call("count", nil))), pygent.WithTools(counted(&ran)))
		for e, err := range agent.Events(t.Context(), "go") {
			require.NoError(t, err)
			if e.Type == pygent.EventToolCall {
				break
			}
		}
		require.Zero(t, ran.Load())
		require.Len(t, results(agent), 2)
		require.NoError(t, agent.History().Append(chat.UserMessage("the run is over")))
	}
}

func TestEventsWaitForTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		model := pygenttest.NewScriptedModel(pygenttest.TextAndCalls("Looking at it.", pygenttest.Call("count", nil)), pygenttest.Call("count", nil), stop)
		agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(counted(&ran)))
		before := map[pygent.EventType]int32{}
		for e, err := range agent.Events(t.Context(), "go") {
			require.NoError(t, err)
			synctest.Wait() // until everything is blocked or done
			if _, seen := before[e.Type]; !seen {
				before[e.Type] = ran.Load()
			}
		}
		require.Equal(t, int32(0), before[pygent.EventMessage])
		require.Equal(t, int32(0), before[pygent.EventToolCall])
		require.Equal(t, int32(1), before[pygent.EventToolDone])
		require.Equal(t, int32(2), before[pygent.EventRunEnd])
	})
}

func TestDeltasAreMergedWhileTheLoopIsBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("one two three four five six")))
		var texts []string
		for e, err := range agent.Events(t.Context(), "go", pygent.WithEndOnReply()) {
			require.NoError(t, err)
			synctest.Wait()
			if e.Type == pygent.EventText {
				texts = append(texts, e.Text)
			}
		}
		require.Equal(t, "one two three four five six", strings.Join(texts, ""))
		require.LessOrEqual(t, len(texts), 2, "the first one, and all that came meanwhile")
	})
}

func TestEventsCanBeRangedOverOnce(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop, stop)
	events := newAgent(t, model).Events(t.Context(), "go")
	for _, err := range events {
		require.NoError(t, err)
	}
	n := 0
	for _, err := range events {
		require.ErrorIs(t, err, pygent.ErrEventsUsed)
		n++
	}
	require.Equal(t, 1, n)
	require.Len(t, model.Requests(), 1)
}

func TestNoLoopOverEventsClosesTheAgent(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop).RepeatLast())
	for range 3 {
		for _, err := range agent.Events(t.Context(), "go") {
			require.NoError(t, err)
			require.ErrorIs(t, agent.Close(), pygent.ErrInCallback)
		}
	}
	require.NoError(t, agent.Close(), "behind the loops")
}

func TestTheLoopOverEventsMayUseTheAgent(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Calls(delegate("Work"), callBash("echo hi > f")), stop).RepeatLast().On("Work", callBash("echo work"), stop)
	agent := newAgent(t, model)
	var refused error
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Task != "" {
			continue
		}
		_, err := agent.Runtime().Bash(t.Context(), "true")
		require.NoError(t, err)
		agent.RefreshSystemMessage()
		require.NotEmpty(t, agent.History().Messages())
		_, err = agent.RunUntilStop(t.Context(), "again")
		require.ErrorIs(t, err, pygent.ErrAgentBusy)
		if all, _ := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{}); len(all) > 0 {
			waitTask(t, agent.Tasks(), all[0].ID) // its events are queued meanwhile
		}
		refused = agent.Close()
	}
	require.ErrorIs(t, refused, pygent.ErrInCallback)
	data, err := agent.Runtime().ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "hi\n", string(data))
}

func TestPanicInTheLoopOverEventsEndsTheRun(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("sleep 600"), stop))
	require.PanicsWithValue(t, "mine", func() {
		for e := range agent.Events(t.Context(), "go") {
			if e.Type == pygent.EventToolCall {
				panic("mine")
			}
		}
	})
	result, err := agent.RunUntilStop(t.Context(), "go on")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestSlowHandlerDoesNotOutlastTheTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []pygent.EventType
		slow := func(e pygent.Event) {
			if e.Type == pygent.EventToolCall {
				time.Sleep(time.Hour)
			}
			seen = append(seen, e.Type)
		}
		var ran atomic.Int32
		model := pygenttest.NewScriptedModel(pygenttest.Call("count", nil))
		for _, limit := range []pygent.RunOption{pygent.MaxTime(time.Minute), pygent.StepTimeout(time.Minute)} {
			agent := newAgentOn(t, nowhere{}, model.RepeatLast(), pygent.WithTools(counted(&ran)))
			start := time.Now()
			result, err := agent.RunUntilStop(t.Context(), "go", limit, pygent.OnEvent(slow))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusTimeout, result.Status)
			require.LessOrEqual(t, time.Since(start), time.Minute+5*time.Second)
			require.Zero(t, ran.Load(), "the time was over before the tool could run")
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, pygent.EventRunEnd, seen[len(seen)-1], "it gets the rest when it is done")
		}
	})
}

func TestRunWaitsUntilItsEndWasHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := false
		slow := func(e pygent.Event) {
			if e.Type == pygent.EventRunEnd {
				time.Sleep(time.Hour)
				handled = true
			}
		}
		for _, limit := range []pygent.RunOption{nil, pygent.StepTimeout(time.Minute)} {
			handled = false
			_, err := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop)).RunUntilStop(t.Context(), "go", pygent.OnEvent(slow), limit)
			require.NoError(t, err)
			require.True(t, handled, "the run has no limit of time, and the end is in no step")
		}
	})
}

func TestSlowLoopOverEventsDoesNotOutlastTheTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("count", nil)), pygent.WithTools(counted(new(atomic.Int32))))
		var last pygent.Event
		for e, err := range agent.Events(t.Context(), "go", pygent.MaxTime(time.Minute)) {
			require.NoError(t, err)
			if last = e; e.Type == pygent.EventToolCall {
				time.Sleep(time.Hour)
			}
		}
		require.Equal(t, pygent.StatusTimeout, last.Result.Status)
		require.LessOrEqual(t, last.Result.Elapsed, time.Minute)
	})
}

func TestPanickingHandlerEndsTheRun(t *testing.T) {
	t.Parallel()
	panics := func(e pygent.Event) {
		if e.Type == pygent.EventToolCall {
			panic("oops")
		}
	}
	for name, opts := range map[string]struct {
		agent []pygent.Option
		run   []pygent.RunOption
	}{
		"of the agent": {agent: []pygent.Option{pygent.OnEvent(panics)}},
		"of the run":   {run: []pygent.RunOption{pygent.OnEvent(panics)}},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("touch never")), opts.agent...)
			result, err := agent.RunUntilStop(t.Context(), "go", opts.run...)
			require.EqualError(t, err, "the event handler: panic: oops")
			require.Equal(t, pygent.StatusFailed, result.Status)
			_, err = agent.Runtime().ReadFile(t.Context(), "never")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A call in progress is not answered because somebody looks at the
// conversation.
func TestLookingAtTheConversationKeepsTheResult(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var shown []pygent.Message
	look := pygent.Tool{Name: "look", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		shown = agent.History().Conversation()
		return &pygent.ToolResult{Content: "what it saw"}, nil
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Call("look", nil), pygenttest.Call("stop", nil))
	agent = newAgentOn(t, nowhere{}, model, pygent.WithTools(look))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, pygenttest.CheckConversation(shown))
	require.Contains(t, shown[len(shown)-1].Content, "interrupted")
	sent := model.Requests()[1].Messages
	require.Equal(t, "what it saw", sent[len(sent)-1].Content)
}

func TestHandlersMayCallTheAgent(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	agent = newAgent(t, pygenttest.NewScriptedModel(callBash("true"), stop), pygent.OnEvent(func(pygent.Event) {
		if agent == nil {
			return
		}
		_, err := agent.Runtime().Bash(t.Context(), "true")
		require.NoError(t, err)
		agent.RefreshSystemMessage()
		_, err = agent.RunUntilStop(t.Context(), "again")
		require.ErrorIs(t, err, pygent.ErrAgentBusy)
		_, err = agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
		require.NoError(t, err)
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
}

// TestKeptEventsDoNotKeepTheRun holds an agent after its run, whose events it keeps for
// subscribers, and expects that what belonged to the run alone is free. Go may keep a
// stopped timer, and so the context that it would have ended, until its time has come; in
// a bubble this takes no time.
func TestKeptEventsDoNotKeepTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var n atomic.Int32
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("count", nil)), pygenttest.Calls(pygenttest.Call("stop", nil))), pygent.WithTools(counted(&n)))
		ofRun := func() weak.Pointer[[1 << 10]byte] {
			value := new([1 << 10]byte)
			_, err := agent.RunUntilStop(context.WithValue(t.Context(), key{}, value), "go")
			require.NoError(t, err)
			return weak.Make(value)
		}()
		require.EqualValues(t, 1, n.Load())
		time.Sleep(24 * time.Hour)
		runtime.GC()
		require.True(t, ofRun.Value() == nil, "the value of the run's context is kept")
		runtime.KeepAlive(agent)
	})
}

// onlyOf returns the events of some types.
func onlyOf(events []pygent.Event, types ...pygent.EventType) []pygent.Event {
	var only []pygent.Event
	for _, e := range events {
		for _, t := range types {
			if e.Type == t {
				only = append(only, e)
			}
		}
	}
	return only
}

func TestUserEventsSayWhoSpoke(t *testing.T) {
	t.Parallel()
	look := pygenttest.Call("look", map[string]any{})
	picture := pygent.Tool{Name: "look", Description: "Look", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "seen", Images: []string{"data:image/png;base64,AA=="}}, nil
	}}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("hello"), look, stop), pygent.WithTools(picture))
	var said []string
	for _, e := range onlyOf(eventsOf(t, agent, "do it"), pygent.EventUser) {
		said = append(said, fmt.Sprint(e.Source))
		require.Nil(t, e.Message)
		require.Equal(t, agent.History().Messages()[e.Messages].Text(), e.Text)
	}
	require.Equal(t, []string{"user", "nudge", "images"}, said)
}

func TestEventsTellTheLengthOfTheHistory(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo 1"), pygenttest.Text("hm"), stop))
	events := eventsOf(t, agent, "go", pygent.MaxToolCalls(1))
	history := agent.History().Messages()
	told := 1 // the system message, which comes first in the end, has no event
	for _, e := range onlyOf(events, pygent.EventUser, pygent.EventMessage, pygent.EventToolDone, pygent.EventToolSkipped) {
		told++
		require.Equal(t, told-1, e.Messages)
		switch last := history[e.Messages]; e.Type {
		case pygent.EventUser:
			require.Equal(t, chat.RoleUser, last.Role)
		case pygent.EventMessage:
			require.Equal(t, e.Message.Text(), last.Text())
		default:
			require.Equal(t, e.Call.ID, last.ToolCallID)
		}
	}
	require.Equal(t, len(history), told)
}

func TestModelStartTellsEachAttempt(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Overloaded(), stop), pygent.WithModelName("m1"))
	var attempts []int
	for _, e := range onlyOf(eventsOf(t, agent, "go"), pygent.EventModelStart) {
		require.Equal(t, "m1", e.Model)
		require.Equal(t, 1, e.Messages)
		attempts = append(attempts, e.Attempt)
	}
	require.Equal(t, []int{1, 2}, attempts)
}

func TestLeavingAtModelStartDoesNotAsk(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgent(t, model)
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventModelStart {
			break
		}
	}
	require.Empty(t, model.Requests())
}

func TestRunEndDoesNotRepeatTheAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reply   pygenttest.Reply
		summary string
	}{
		"a reply":              {pygenttest.Text("the long answer"), ""},
		"a summary of its own": {pygenttest.TextAndCalls("the long answer", pygenttest.Call("stop", map[string]any{"summary": "short"})), "short"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.reply))
			events := eventsOf(t, agent, "go", pygent.WithEndOnReply())
			end := events[len(events)-1]
			require.Equal(t, "the long answer", end.Result.Message.Text(), "in Go it is complete")
			require.NotEmpty(t, end.Result.Summary)
			data, err := json.Marshal(end)
			require.NoError(t, err)
			require.NotContains(t, string(data), "long answer")
			var back pygent.Event
			require.NoError(t, json.Unmarshal(data, &back))
			require.Equal(t, tt.summary, back.Result.Summary)
			data, err = json.Marshal(end.Result)
			require.NoError(t, err)
			require.Contains(t, string(data), "long answer", "the result alone is complete")
		})
	}
}

func TestMessagesTellHowFullTheContextIs(t *testing.T) {
	t.Parallel()
	use := func(prompt, completion, reasoning int64) pygenttest.Reply {
		return pygenttest.Text("hi").WithUsage(pygent.Usage{PromptTokens: prompt, CompletionTokens: completion, ReasoningTokens: reasoning})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(use(1000, 50, 20), use(0, 0, 0)), pygent.WithModelName("gpt-4.1-mini"))
	var uses []pygent.ContextUse
	for _, e := range onlyOf(eventsOf(t, agent, "go"), pygent.EventMessage) {
		uses = append(uses, e.Context)
	}
	require.Equal(t, pygent.ContextUse{Used: 1030, Window: 1_047_576}, uses[0])
	require.True(t, uses[1].Estimated)
	require.NotZero(t, uses[1].Used)
	require.Equal(t, uses[1], agent.State().Context)
}
