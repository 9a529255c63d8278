package pygent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/budget"
)

// executors are the executors that have to keep the contract of [taskExecutor].
var executors = map[string]func(most int, host taskHost) taskExecutor{
	"local": func(most int, host taskHost) taskExecutor { return newLocalExecutor(most, host) },
}

// contractHost makes agents whose model does what the last message of the user
// says.
type contractHost struct{}

func (h contractHost) logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (h contractHost) grant(TaskSpec, bool) (taskGrant, error) {
	return taskGrant{tokens: budget.New[spending](budget.Sums{}), timeout: time.Hour}, nil
}

func (h contractHost) openAgent(_ context.Context, spec TaskSpec, gate taskGate) (*Agent, error) {
	return New(WithDocker(DockerNever), WithModel(ModelFunc(obey)), WithID(spec.ID), WithApproval(gate.approve), WithApprovalFor("bash"),
		option(func(o *options) { o.task, o.asksManager = spec.ID, true }))
}

func obey(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	said := ""
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == chat.RoleTool {
			said = "stop"
			break
		}
		if m.Role == chat.RoleUser {
			said, _, _ = strings.Cut(m.Content, " ")
			break
		}
	}
	call := map[string]ToolCall{
		"stop": {ID: "c", Name: "stop", Arguments: `{"summary":"done"}`},
		"ask":  {ID: "c", Name: "continue", Arguments: `{"prompt":"Which?"}`},
		"run":  {ID: "c", Name: "bash", Arguments: `{"cmd":"echo x > f"}`},
	}
	switch said {
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "fail":
		return nil, errors.New("broken")
	}
	return &ChatResponse{Message: chat.AssistantMessage("", call[said])}, nil
}

// contract is one executor in a test.
type contract struct {
	*testing.T
	taskExecutor
}

func (c contract) begin(id, prompt string) {
	c.Helper()
	require.NoError(c, c.start(c.Context(), contractSpec(id, prompt), false))
}

func contractSpec(id, prompt string) TaskSpec {
	return TaskSpec{Version: taskSpecVersion, ID: id, Prompt: prompt, Depth: 1, Rules: TaskRules{Root: id}}
}

// until returns the first event after the given number for which f holds.
func (c contract) until(id string, after int64, f func(Event) bool) Event {
	c.Helper()
	for e, err := range c.events(c.Context(), id, after) {
		require.NoError(c, err)
		if f(e) {
			return e
		}
	}
	require.FailNow(c, "the events ended")
	return Event{}
}

func atRest(e Event) bool { return e.TaskStatus != nil && e.TaskStatus.State.AtRest() }

func asks(e Event) bool { return e.Type == EventApproval }

func (c contract) tell(id string, in taskInput) (int64, error) {
	in.ID = cmp.Or(in.ID, newID())
	return c.send(c.Context(), id, in)
}

// TestExecutorsKeepTheirContract is the contract of a [taskExecutor]: whatever
// carries tasks out passes it.
func TestExecutorsKeepTheirContract(t *testing.T) {
	t.Parallel()
	for name, open := range executors {
		for what, test := range map[string]func(c contract){
			"a start is repeated without effect": func(c contract) {
				c.begin("a", "stop")
				end := c.until("a", 0, atRest)
				c.begin("a", "stop")
				require.ErrorIs(c, c.start(c.Context(), contractSpec("a", "other"), false), ErrTaskExists)
				status, err := c.status(c.Context(), "a")
				require.NoError(c, err)
				require.Equal(c, end.Seq, status.Seq)
				require.Equal(c, 1, status.Runs)
				require.Error(c, c.start(c.Context(), TaskSpec{Version: 99}, false))
			},
			"without room a task is refused or waits": func(c contract) {
				c.begin("a", "hang")
				c.begin("b", "hang")
				require.ErrorIs(c, c.start(c.Context(), contractSpec("c", "stop"), false), ErrTooManyTasks)
				_, err := c.status(c.Context(), "c")
				require.ErrorIs(c, err, ErrUnknownTask)
				require.NoError(c, c.start(c.Context(), contractSpec("c", "stop"), true))
				_, err = c.tell("a", taskInput{Kind: inputCancel, Text: "no more"})
				require.NoError(c, err)
				require.Equal(c, TaskFinished, c.until("c", 0, atRest).TaskStatus.State)
			},
			"events are numbered without gaps and go on at rest": func(c contract) {
				c.begin("a", "ask")
				var seqs []int64
				c.until("a", 0, func(e Event) bool { seqs = append(seqs, e.Seq); return atRest(e) })
				for i, seq := range seqs {
					require.EqualValues(c, i+1, seq)
				}
				last := seqs[len(seqs)-1]
				n, err := c.tell("a", taskInput{Kind: inputMessage, Text: "stop"})
				require.NoError(c, err)
				end := c.until("a", last, atRest)
				require.Equal(c, TaskFinished, end.TaskStatus.State)
				require.Equal(c, n, end.Input)
			},
			"a message to a task at work waits and is taken up once": func(c contract) {
				c.begin("a", "run")
				request := c.until("a", 0, asks)
				for range 2 {
					n, err := c.tell("a", taskInput{ID: "m1", Kind: inputMessage, Text: "stop now"})
					require.NoError(c, err)
					require.EqualValues(c, 1, n)
				}
				_, err := c.tell("a", taskInput{Kind: inputDecision, Call: request.Call.ID, Decision: Decision{Allow: true}})
				require.NoError(c, err)
				end := c.until("a", 0, atRest)
				require.EqualValues(c, 1, end.TaskStatus.Input)
				require.Equal(c, 2, end.TaskStatus.Runs)
			},
			"calls that wait for a decision are state": func(c contract) {
				c.begin("a", "run")
				request := c.until("a", 0, asks)
				status, err := c.status(c.Context(), "a")
				require.NoError(c, err)
				require.Len(c, status.Approvals, 1)
				require.Equal(c, request.Seq, status.Approvals[0].Seq)
				decide := taskInput{Kind: inputDecision, Request: request.Seq, Decision: Decision{Reason: "no"}}
				_, err = c.tell("a", decide)
				require.NoError(c, err)
				_, err = c.tell("a", decide)
				require.ErrorIs(c, err, ErrNotAsked)
				require.Empty(c, c.until("a", 0, atRest).TaskStatus.Approvals)
			},
			"the status is what the events say": func(c contract) {
				c.begin("a", "run")
				request := c.until("a", 0, asks)
				var folded TaskStatus
				fold := func(last int64) {
					c.until("a", folded.Seq, func(e Event) bool { folded.apply(e); return e.Seq == last })
					status, err := c.status(c.Context(), "a")
					require.NoError(c, err)
					require.Equal(c, status, folded)
				}
				fold(request.Seq)
				_, err := c.tell("a", taskInput{Kind: inputDecision, Call: request.Call.ID, Decision: Decision{Allow: true}})
				require.NoError(c, err)
				fold(c.until("a", 0, atRest).Seq)
				_, err = c.tell("a", taskInput{Kind: inputMessage, Text: "stop"})
				require.NoError(c, err)
				fold(c.until("a", folded.Seq, atRest).Seq)
			},
			"a cancel ends a run and withdraws a question": func(c contract) {
				c.begin("a", "hang")
				c.begin("b", "ask")
				c.until("b", 0, atRest)
				for _, id := range []string{"a", "b"} {
					_, err := c.tell(id, taskInput{Kind: inputCancel, Text: "not needed"})
					require.NoError(c, err)
					end := c.until(id, 0, func(e Event) bool { return atRest(e) && e.TaskStatus.State == TaskCancelled })
					require.Equal(c, "not needed", end.TaskStatus.Reason)
				}
			},
			"a failure is a state": func(c contract) {
				c.begin("a", "fail")
				end := c.until("a", 0, atRest).TaskStatus
				require.Equal(c, TaskFailed, end.State)
				require.ErrorContains(c, end.Err(), "broken")
			},
			"files and history are there at rest": func(c contract) {
				c.begin("a", "run")
				_, _, err := c.export(c.Context(), "b", "f", io.Discard)
				require.ErrorIs(c, err, ErrUnknownTask)
				_, err = c.tell("a", taskInput{Kind: inputDecision, Call: c.until("a", 0, asks).Call.ID, Decision: Decision{Allow: true}})
				require.NoError(c, err)
				c.until("a", 0, atRest)
				var archive bytes.Buffer
				_, live, err := c.export(c.Context(), "a", "f", &archive)
				require.NoError(c, err)
				require.False(c, live)
				require.NotZero(c, archive.Len())
				messages, err := c.history(c.Context(), "a")
				require.NoError(c, err)
				require.NotEmpty(c, messages)
			},
			"what is removed is gone, and its events end": func(c contract) {
				c.begin("a", "hang")
				require.ErrorIs(c, c.remove(c.Context(), "a"), ErrTaskRunning)
				_, err := c.tell("a", taskInput{Kind: inputCancel})
				require.NoError(c, err)
				c.until("a", 0, atRest)
				require.NoError(c, c.remove(c.Context(), "a"))
				_, err = c.status(c.Context(), "a")
				require.ErrorIs(c, err, ErrUnknownTask)
				all, err := c.list(c.Context(), TaskFilter{})
				require.NoError(c, err)
				require.Empty(c, all)
			},
			"close cancels all, ends the events, and refuses more": func(c contract) {
				c.begin("a", "hang")
				require.NoError(c, c.close())
				var last Event
				for e, err := range c.events(c.Context(), "a", 0) {
					require.NoError(c, err)
					last = e
				}
				require.Equal(c, TaskCancelled, last.TaskStatus.State)
				require.ErrorIs(c, c.start(c.Context(), contractSpec("b", "stop"), true), ErrTaskManagerClosed)
				_, err := c.tell("a", taskInput{Kind: inputMessage, Text: "stop"})
				require.ErrorIs(c, err, ErrTaskManagerClosed)
			},
			"an ended context ends the call alone": func(c contract) {
				c.begin("a", "hang")
				ctx, cancel := context.WithCancel(c.Context())
				cancel()
				_, err := c.status(ctx, "a")
				require.ErrorIs(c, err, context.Canceled)
				_, err = c.send(ctx, "a", taskInput{ID: "x", Kind: inputCancel})
				require.ErrorIs(c, err, context.Canceled)
				for _, err := range c.events(ctx, "a", 0) {
					require.ErrorIs(c, err, context.Canceled)
				}
				status, err := c.status(c.Context(), "a")
				require.NoError(c, err)
				require.False(c, status.State.AtRest())
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				x := open(2, contractHost{})
				defer func() { require.NoError(t, x.close()) }()
				test(contract{t, x})
			})
		}
	}
}
