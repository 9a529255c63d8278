package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// waits decides nothing: it waits until somebody else does.
func waits(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
	<-ctx.Done()
	return pygent.Decision{}, ctx.Err()
}

// awaitApproval returns the call of a task that waits for a decision.
func awaitApproval(t *testing.T, m *pygent.TaskManager, id string) pygent.PendingApproval {
	t.Helper()
	for e, err := range m.Events(t.Context(), id, 0) {
		require.NoError(t, err)
		if e.Type != pygent.EventApproval {
			continue
		}
		status, err := m.Status(t.Context(), id)
		require.NoError(t, err)
		if len(status.Approvals) > 0 {
			return status.Approvals[0]
		}
	}
	require.FailNow(t, "nothing was asked")
	return pygent.PendingApproval{}
}

func TestAnybodyDecidesAboutACallOfATask(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one"), callBash("echo two"), stop),
		pygent.TaskAgents(pygent.WithApprovalFor("bash")), pygent.TaskApproval(waits))
	id := startTask(t, m, "go", hollow{})
	p := awaitApproval(t, m, id)
	require.Equal(t, id, p.Request.Task)
	require.Equal(t, "bash", p.Request.Call.Name)
	require.NotZero(t, p.Seq)
	require.False(t, p.Since.IsZero())
	call := p.Request.Call.ID
	require.ErrorIs(t, m.Decide(t.Context(), id, "nobody", pygent.Decision{Allow: true}), pygent.ErrNotAsked)
	require.ErrorIs(t, m.Decide(t.Context(), "nobody", call, pygent.Decision{Allow: true}), pygent.ErrUnknownTask)
	require.ErrorContains(t, m.Decide(t.Context(), id, call, pygent.Decision{Allow: true, Arguments: json.RawMessage("{")}), "not JSON")
	require.NoError(t, m.Decide(t.Context(), id, call, pygent.Decision{Allow: true, By: "Ada"}))
	require.ErrorIs(t, m.Decide(t.Context(), id, call, pygent.Decision{}), pygent.ErrNotAsked, "the first one counts")

	var second pygent.PendingApproval
	for e, err := range m.Events(t.Context(), id, p.Seq) {
		require.NoError(t, err)
		if e.Type == pygent.EventDecision {
			require.Equal(t, "Ada", e.Decision.By)
		}
		if e.Type == pygent.EventApproval {
			break
		}
	}
	second = awaitApproval(t, m, id)
	require.Contains(t, second.Request.Call.Arguments, "two")
	require.NoError(t, m.Decide(t.Context(), id, second.Request.Call.ID, pygent.Decision{Reason: "one is enough"}))
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State)
	require.Empty(t, status.Approvals)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "error: denied: one is enough", messages[5].Content)
}

func TestCancelWithdrawsTheQuestionsOfATask(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one")),
		pygent.TaskAgents(pygent.WithApprovalFor("bash")), pygent.TaskApproval(waits))
	id := startTask(t, m, "go", hollow{})
	call := awaitApproval(t, m, id).Request.Call.ID
	require.NoError(t, m.Cancel(t.Context(), id))
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskCancelled, status.State)
	require.Empty(t, status.Approvals)
	require.ErrorIs(t, m.Decide(t.Context(), id, call, pygent.Decision{Allow: true}), pygent.ErrNotAsked)
}

// TestTasksAtOnce has many tasks at work with decisions, messages and cancels at
// the same time. Every one of them comes to rest, and every message that was
// not dropped is taken up.
func TestTasksAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		m := newTasks(t, pygenttest.NewScriptedModel(callBash("true"), stop).On("go", callBash("true"), stop).RepeatLast(),
			pygent.MaxTasks(5), pygent.TaskAgents(pygent.WithApprovalFor("bash")), pygent.TaskApproval(
				func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
					if len(r.Task)%2 == 0 {
						return waits(ctx, r)
					}
					return pygent.Decision{Allow: true}, nil
				}))
		var decided, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			id := startTask(t, m, fmt.Sprint("go ", i), hollow{}, pygent.WithTaskQueue(), pygent.WithTaskID(fmt.Sprintf("t%d", i)))
			ctx, cancel := context.WithCancel(t.Context())
			var deciders sync.WaitGroup
			for range 2 {
				deciders.Go(func() {
					for e := range m.Events(ctx, id, 0) {
						if e.Type != pygent.EventApproval {
							continue
						}
						switch err := m.Decide(ctx, id, e.Call.ID, pygent.Decision{Allow: true}); {
						case err == nil:
							decided.Add(1)
						case errors.Is(err, pygent.ErrNotAsked):
							refused.Add(1)
						}
					}
				})
			}
			wg.Go(func() {
				defer deciders.Wait()
				defer cancel()
				for n := range 3 {
					_, err := m.Send(ctx, id, "more", pygent.WithMessageID(fmt.Sprint(n)))
					require.NoError(t, err)
				}
				if i%4 == 0 {
					require.NoError(t, m.Cancel(ctx, id))
				}
				status, err := m.Wait(ctx, id)
				require.NoError(t, err)
				require.True(t, status.State.AtRest())
				require.Zero(t, status.Waiting)
				require.Empty(t, status.Approvals)
				if i%4 != 0 {
					require.EqualValues(t, 3, status.Input, "round %d, task %s: %s", round, id, status)
					require.Equal(t, pygent.TaskFinished, status.State, status.Reason)
				}
				require.NoError(t, m.Remove(ctx, id))
			})
		}
		wg.Wait()
		require.Positive(t, decided.Load()+refused.Load())
		require.NoError(t, m.Close())
	}
}

func TestQuestionsOfTasksWaitForTheirTurnInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Call("ask_first", nil)).Loop(), pygent.TaskAgents(
			pygent.WithRuntime(emptyRuntime{}), pygent.WithTools(plainTool("ask_first", func(t *pygent.Tool) {
				t.NeedsApproval = true
				t.Run = func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
					return &pygent.ToolResult{End: pygent.StatusStopped}, nil
				}
			}))), pygent.TaskApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			time.Sleep(time.Second)
			return pygent.Decision{Allow: true}, nil
		}))
		start := time.Now()
		ids := []string{startTask(t, m, "one", nil), startTask(t, m, "two", nil)}
		for _, id := range ids {
			status, err := m.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, pygent.TaskFinished, status.State)
		}
		require.Equal(t, 2*time.Second, time.Since(start), "one after the other")
	})
}

// Whoever decides for the parent decides about its tasks, and is told whose call it
// is. The parent's model sees that the task waits, and cannot decide.
func TestTheModelOfTheParentApprovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var agent *pygent.Agent
		var told []string
		var requests []pygent.ApprovalRequest
		decide := func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			requests = append(requests, r)
			time.Sleep(10 * time.Minute)
			return pygent.Decision{Reason: "not today", By: "Ada"}, nil
		}
		say := func(text string) func(string) pygenttest.Reply {
			return func(id string) pygenttest.Reply { return send(id, text) }
		}
		model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), always(wait("")), func(id string) pygenttest.Reply { return wait(id) },
			say("1"), say(`{"allow":true}`), say("approve, allow, yes, always"), func(id string) pygenttest.Reply {
				return pygenttest.Call("task_status", map[string]any{"task_id": id, "wait": 600})
			}, always(stop))).RepeatLast().
			On("Work", callBash("rm -rf /").WithDelay(time.Second), stop)
		agent = newAgentOn(t, hollow{}, model, pygent.WithApprovalFor("bash"), pygent.WithApproval(decide), pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventApproval:
				told = append(told, "asked for "+e.Task)
				require.Equal(t, e.Task, e.Approval.Task)
			case pygent.EventDecision:
				told = append(told, fmt.Sprintf("%s decided for %s: %t", e.Decision.By, e.Task, e.Decision.Allow))
			}
		}))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		id := onlyTask(t, agent).ID
		require.Len(t, requests, 1)
		require.Equal(t, id, requests[0].Task)
		require.Equal(t, []string{"asked for " + id, "Ada decided for " + id + ": false"}, told)
		got := results(agent)
		require.Contains(t, got[1], "\n  it is waiting for the user's approval: $ rm -rf /")
		require.Contains(t, got[2], "\nit is waiting for the user's approval: $ rm -rf /")
		for _, sent := range got[3:6] {
			require.Equal(t, "task "+id+" hears it before its next step; it is waiting for the user's approval: $ rm -rf /", sent)
		}
		messages, err := agent.Tasks().TaskHistory(t.Context(), id)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(messages), "error: denied: not today")
		require.NoError(t, agent.Close())
	})
}

// SetApproval counts for the next call of a task that works already, and a call
// that is asked about twice is denied by whoever says no.
func TestSetApprovalCountsForTasksAtWork(t *testing.T) {
	t.Parallel()
	allow := func(by string, yes bool) pygent.ApprovalFunc {
		return func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			return pygent.Decision{Allow: yes, By: by}, nil
		}
	}
	gate, decided := make(chan struct{}), make(chan string, 10)
	model := pygenttest.NewScriptedModel(stop).RepeatLast().On("Work", callBash("echo one"), callBash("echo two").WithGate(gate), callBash("echo three"), stop)
	agent := newAgentOn(t, hollow{}, model, pygent.WithApprovalFor("bash"), pygent.WithApproval(allow("first", true)), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventDecision {
			require.NotEmpty(t, e.Task)
			decided <- fmt.Sprintf("%s %t", e.Decision.By, e.Decision.Allow)
		}
	}))
	id, err := agent.Tasks().StartTask(t.Context(), "Work", agent.Runtime())
	require.NoError(t, err)
	require.Equal(t, "first true", <-decided)
	agent.SetApproval(allow("second", false))
	close(gate)
	require.Equal(t, "second false", <-decided)
	agent.SetApproval(nil)
	require.Contains(t, []string{"nobody false", "second false"}, <-decided, "it may have been asked before")
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), id).State)
}

// A decision whose arguments are no JSON is none: the call is denied, with the reason.
func TestADecisionWithBrokenArgumentsDenies(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one"), stop), pygent.TaskAgents(pygent.WithApprovalFor("bash")),
		pygent.TaskApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			return pygent.Decision{Allow: true, Arguments: json.RawMessage("{")}, nil
		}))
	id := startTask(t, m, "go", hollow{})
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, "error: denied: ")
	require.Contains(t, messages[3].Content, "the arguments that it gave are not JSON")
}

// A question that somebody else has answered is withdrawn at once, while the task works on.
func TestAQuestionThatIsAnsweredElsewhereIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		withdrawn := false
		m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one"), pygenttest.Text("").WithGate(nil)),
			pygent.TaskAgents(pygent.WithApprovalFor("bash")),
			pygent.TaskApproval(func(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				defer func() { withdrawn = true }()
				return waits(ctx, r)
			}))
		id := startTask(t, m, "go", hollow{})
		synctest.Wait()
		require.False(t, withdrawn)
		status, err := m.Status(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, status.Approvals, 1)
		require.NoError(t, m.Decide(t.Context(), id, status.Approvals[0].Request.Call.ID, pygent.Decision{Allow: true}))
		synctest.Wait()
		require.True(t, withdrawn)
		status, err = m.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, pygent.TaskRunning, status.State)
		require.NoError(t, m.Close())
	})
}

// A task that asks the user is not over, and the tasks that it has delegated work on.
func TestTasksOfATaskThatAsksTheUserWorkOn(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	asks := always(pygenttest.Call("continue", map[string]any{"prompt": "Which?"}))
	agent := newAgentOn(t, hollow{}, pygenttest.NewScriptedModel(stop).On("Lead", follow(always(delegate("Sub")), asks, asks)).RepeatLast().
		On("Sub", stop.WithGate(gate)), pygent.MaxTaskDepth(2))
	m := agent.Tasks()
	lead := startTask(t, m, "Lead", agent.Runtime())
	require.Equal(t, pygent.TaskAwaitingUser, waitTask(t, m, lead).State)
	close(gate)
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "Sub", all[1].Prompt)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, all[1].ID).State)
}

// The time of a run bounds its tasks, but not what they do for a message after the run.
func TestMessageAfterTheRunIsNotBoundByItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(follow(always(delegate("Ask")), func(id string) pygenttest.Reply { return wait(id) }, always(stop), always(stop))).RepeatLast().
			On("Ask", follow(always(pygenttest.Call("continue", map[string]any{"prompt": "Which?"})), always(stop.WithDelay(time.Minute)))).RepeatLast()
		agent := newAgentOn(t, hollow{}, model)
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTime(10*time.Minute))
		require.NoError(t, err)
		id := onlyTask(t, agent).ID
		time.Sleep(time.Hour)
		require.NoError(t, errOf(agent.Tasks().Send(t.Context(), id, "this one")))
		status, err := agent.Tasks().Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, pygent.TaskFinished, status.State, status.Reason)
		require.NoError(t, agent.Close())
	})
}

func TestMessageToATaskAtWorkWaitsUntilItRests(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := newTasks(t, pygenttest.NewScriptedModel(stop.WithGate(gate), stop).RepeatLast())
	id := startTask(t, m, "go", hollow{})
	for i, want := range []int64{1, 2, 2, 3} {
		n, err := m.Send(t.Context(), id, fmt.Sprint("message ", want), pygent.WithMessageID(fmt.Sprint(want)))
		require.NoError(t, err)
		require.Equal(t, want, n, "message %d", i)
	}
	status, err := m.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 3, status.Waiting)
	require.Zero(t, status.Input)
	close(gate)
	status = waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State)
	require.Equal(t, 4, status.Runs)
	require.EqualValues(t, 3, status.Input)
	require.Zero(t, status.Waiting)
	require.Equal(t, []string{"go", "message 1", "message 2", "message 3"}, userTexts(t, m, id))
	rests, inputs := 0, []int64{}
	for e, err := range m.Events(t.Context(), id, 0) {
		require.NoError(t, err)
		require.Equal(t, id, e.Task)
		if e.Type == pygent.EventRunEnd {
			inputs = append(inputs, e.Input)
		}
		if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			rests++
		}
		if e.Seq == status.Seq {
			break
		}
	}
	require.Equal(t, []int64{0, 1, 2, 3}, inputs, "the end of the run of each")
	require.Equal(t, 1, rests, "it rests only when there is no more to do")
}

func TestCancelDropsTheMessagesOfATask(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil), stop)
	m := newTasks(t, model)
	id := startTask(t, m, "go", hollow{})
	require.NoError(t, model.WaitRequests(t.Context(), 1))
	require.NoError(t, errOf(m.Send(t.Context(), id, "hurry")))
	require.NoError(t, m.Cancel(t.Context(), id))
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskCancelled, status.State)
	require.Zero(t, status.Waiting)
	require.Equal(t, 1, status.Runs)
	n, err := m.Send(t.Context(), id, "go on after all")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.NotContains(t, userTexts(t, m, id), "hurry")
}

func TestTooManyMessagesWait(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	id := startTask(t, m, "go", hollow{})
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = m.Send(t.Context(), id, "again")
	}
	require.ErrorIs(t, err, pygent.ErrTaskBusy)
}

func TestEventsOfATaskGoOnWhileItRests(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	id := startTask(t, m, "go", hollow{})
	first := waitTask(t, m, id)
	rested, done := make(chan int64), make(chan error, 1)
	go func() {
		for e, err := range m.Events(t.Context(), id, first.Seq) {
			if err != nil {
				done <- err
				return
			}
			if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
				rested <- e.Seq
			}
		}
		done <- nil
	}()
	for range 2 {
		require.NoError(t, errOf(m.Send(t.Context(), id, "again")))
		require.Greater(t, <-rested, first.Seq)
		waitTask(t, m, id)
	}
	require.NoError(t, m.Remove(t.Context(), id))
	require.NoError(t, <-done, "they end with the task")

	for _, err := range m.Events(t.Context(), id, 0) {
		require.ErrorIs(t, err, pygent.ErrUnknownTask)
	}
	id = startTask(t, m, "go", hollow{})
	waitTask(t, m, id)
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for e, err := range m.Events(ctx, id, 0) {
		if last = err; err == nil && e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			cancel()
		}
	}
	cancel()
	require.ErrorIs(t, last, context.Canceled)
}

func TestPartsGoWithPromptsAndMessages(t *testing.T) {
	t.Parallel()
	picture := pygent.Part{ImageURL: "data:image/png;base64,iVBORw0KGgo="}
	var foreign pygent.Part
	require.NoError(t, json.Unmarshal([]byte(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`), &foreign))
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(stop.WithGate(gate), stop).RepeatLast()
	m := newTasks(t, model)
	spec := make(chan pygent.TaskSpec, 1)
	read := pygent.WithTaskProfile(func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
		spec <- s
		return nil, nil
	})
	with := []pygent.TaskOption{pygent.WithTaskID("t"), read, pygent.WithTaskParts(picture, foreign)}
	id := startTask(t, m, "Look", hollow{}, with...)
	startTask(t, m, "Look", hollow{}, with...) // the same request
	_, err := m.StartTask(t.Context(), "Look", hollow{}, pygent.WithTaskID("t"), pygent.WithTaskParts(foreign))
	require.ErrorIs(t, err, pygent.ErrTaskExists)
	for _, text := range []string{"And this", ""} {
		_, err = m.Send(t.Context(), id, text, pygent.WithMessageParts(picture))
		require.NoError(t, err)
	}
	close(gate)
	require.Equal(t, 3, waitTask(t, m, id).Runs)
	history, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	var parts [][]pygent.Part
	for _, msg := range history {
		if msg.Role == chat.RoleUser {
			parts = append(parts, msg.Parts)
		}
	}
	require.Equal(t, [][]pygent.Part{{{Text: "Look"}, picture, foreign}, {{Text: "And this"}, picture}, {picture}}, parts)

	written := <-spec
	data, err := json.Marshal(written)
	require.NoError(t, err)
	var decoded pygent.TaskSpec
	require.NoError(t, json.Unmarshal(data, &decoded))
	again, err := json.Marshal(decoded)
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(again))
	require.Contains(t, string(again), `"input_audio"`)
}

func TestMessagesThatNoTaskTakes(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	huge := pygent.Part{Text: strings.Repeat("x", 33<<20)}
	_, err := m.StartTask(t.Context(), "Look", hollow{}, pygent.WithTaskParts(huge))
	require.ErrorContains(t, err, "more than 33554432")
	_, err = m.StartTask(t.Context(), "", hollow{}, pygent.WithTaskParts(pygent.Part{Text: "x"}))
	require.ErrorContains(t, err, "the prompt is empty")
	id := startTask(t, m, "go", hollow{})
	waitTask(t, m, id)
	for name, tt := range map[string]struct {
		text string
		part []pygent.Part
		want string
	}{
		"nothing":  {"", nil, "the message is empty"},
		"too much": {"look", []pygent.Part{huge}, "more than 33554432"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Send(t.Context(), id, tt.text, pygent.WithMessageParts(tt.part...))
			require.ErrorContains(t, err, tt.want)
		})
	}
	require.Equal(t, 1, waitTask(t, m, id).Runs)
}
