package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/pygenttest"
)

// together counts the calls that run at the same time.
type together struct{ now, most atomic.Int32 }

// tool returns a tool whose calls take a second each.
func (c *together) tool(name string, adjust ...func(*pygent.Tool)) pygent.Tool {
	type in struct {
		N int `json:"n,omitempty"`
	}
	return pygent.NewTool(name, "", func(ctx context.Context, _ pygent.Runtime, in in) (*pygent.ToolResult, error) {
		defer c.now.Add(-1)
		now := c.now.Add(1)
		for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
		}
		select {
		case <-time.After(time.Duration(10-in.N%10) * time.Second): // the later calls end first
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch in.N {
		case 98:
			return &pygent.ToolResult{Content: "enough", End: pygent.StatusStopped}, nil
		case 99:
			panic("oh no")
		}
		return &pygent.ToolResult{Content: fmt.Sprint(name, in.N)}, nil
	}, adjust...)
}

func readsOnly(t *pygent.Tool) { t.ReadOnly = true }

// reads are calls of the tool read with the numbers of a list.
func reads(ns ...int) (calls []pygenttest.Reply) {
	for _, n := range ns {
		calls = append(calls, pygenttest.Call("read", map[string]any{"n": n}))
	}
	return calls
}

func TestReadOnlyCallsOfAMessageRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		calls   []pygenttest.Reply
		opts    []pygent.Option
		most    int32
		seconds int
		want    []string
	}{
		"all":           {reads(1, 2, 3), nil, 3, 9, []string{"read1", "read2", "read3"}},
		"one":           {reads(1), nil, 1, 9, []string{"read1"}},
		"at most eight": {reads(1, 2, 3, 4, 5, 6, 7, 8, 9), nil, 8, 9 + 1, []string{"read1", "read2", "read3", "read4", "read5", "read6", "read7", "read8", "read9"}},
		"not around one that writes": {append(append(reads(1, 2), pygenttest.Call("write", map[string]any{"n": 3})), reads(4, 5)...), nil, 2, 9 + 7 + 6,
			[]string{"read1", "read2", "write3", "read4", "read5"}},
		"not those that are asked about": {reads(1, 2), []pygent.Option{pygent.WithApprovalFor("read"), pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			return pygent.Decision{Allow: true}, nil
		})}, 1, 9 + 8, []string{"read1", "read2"}},
		"one fails":          {append(reads(1, 99), pygenttest.Call("read", map[string]any{"m": 1})), nil, 2, 9, []string{"read1", "error: panic: oh no", "error: there is no parameter m"}},
		"one ends the run":   {reads(1, 98, 3), nil, 3, 9, []string{"read1", "enough", "read3"}},
		"a limit of calls":   {reads(1, 2, 3), []pygent.Option{pygent.MaxToolCalls(2)}, 2, 9, []string{"read1", "read2", "not run"}},
		"unknown in between": {append(append(reads(1), pygenttest.Call("nobody", nil)), reads(2)...), nil, 1, 9 + 8, []string{"read1", "error: unknown tool", "read2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c together
				var events []string
				opts := append([]pygent.Option{pygent.WithTools(c.tool("read", readsOnly), c.tool("write")), pygent.OnEvent(func(e pygent.Event) {
					if e.Call != nil && e.Type != pygent.EventApproval && e.Type != pygent.EventDecision {
						events = append(events, string(e.Type)+" "+e.Call.ID)
					}
				})}, tt.opts...)
				agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(tt.calls...)), opts...)
				began := time.Now()
				_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
				require.NoError(t, err)
				require.Equal(t, tt.most, c.most.Load())
				require.Equal(t, time.Duration(tt.seconds)*time.Second, time.Since(began))
				got := results(agent)
				require.Len(t, got, len(tt.want))
				for i, want := range tt.want {
					require.True(t, strings.HasPrefix(got[i], want), got[i])
				}
				requireProperEvents(t, events)
			})
		})
	}
}

// requireProperEvents fails unless each call is announced, begins and is done in
// this order, and the calls are announced and done in the same order.
func requireProperEvents(t *testing.T, events []string) {
	t.Helper()
	at := map[string]int{}
	var announced, done []string
	for i, e := range events {
		at[e] = i + 1
		kind, id, _ := strings.Cut(e, " ")
		switch kind {
		case "tool_call":
			announced = append(announced, id)
		case "tool_start":
			require.NotZero(t, at["tool_call "+id], events)
		case "tool_done":
			require.NotZero(t, at["tool_call "+id], events)
			done = append(done, id)
		case "tool_skipped":
			require.Zero(t, at["tool_call "+id], events)
		}
	}
	require.Equal(t, announced, done)
}

func TestCallsAtTheSameTimeAreCancelledTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c together
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(reads(1, 2, 3)...)), pygent.WithTools(c.tool("read", readsOnly)))
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2500*time.Millisecond, errors.New("enough"))
		defer cancel()
		_, err := agent.RunUntilStop(ctx, "go")
		require.ErrorContains(t, err, "enough")
		require.Zero(t, c.now.Load())
		for _, result := range results(agent) {
			require.Contains(t, result, "the run was interrupted")
		}
	})
}

func TestAListenerPreventsCallsBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c together
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(reads(1, 2, 3)...)), pygent.WithTools(c.tool("read", readsOnly)),
			pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventToolCall {
					if seen++; seen == 2 {
						cancel()
					}
				}
			}))
		_, err := agent.RunUntilStop(ctx, "go")
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1, c.most.Load())
		got := results(agent)
		require.Contains(t, got[0], "the run was interrupted")
		require.Contains(t, got[1], "not run")
		require.Contains(t, got[2], "not run")
	})
}

func TestOverlappingCallsAreShownWithTheirOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c together
		var out strings.Builder
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(reads(1, 2)...)), pygent.WithTools(c.tool("read", readsOnly)))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1), pygent.OnEvent(lines.EventPrinter(&out)))
		require.NoError(t, err)
		require.Contains(t, out.String(), "» read n=1\n» read n=2\n» read n=1\n  read1\n» read n=2\n  read2\n")
	})
}

func TestEventsOfAResultWhoseValueIsNoJSON(t *testing.T) {
	t.Parallel()
	tool := pygent.NewTool("bad", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "x", Value: json.RawMessage(`{"a":`)}, nil
	})
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("bad", nil), stop), pygent.WithTools(tool))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		_, err := json.Marshal(e)
		require.NoError(t, err, e.Type)
	}))
	require.NoError(t, err)
}

func TestALargeValueIsNoErrorAndLeftOutOfEvents(t *testing.T) {
	t.Parallel()
	for size, omitted := range map[int]bool{1<<20 - 2: false, 1 << 20: true} {
		value, err := json.Marshal(strings.Repeat("x", size))
		require.NoError(t, err)
		tool := pygent.Tool{Name: "large", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "done", Value: value}, nil
		}}
		wrapped := 0
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("large", nil), stop), pygent.WithTools(tool),
			pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler {
				return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
					result, err := next(ctx, rt, call)
					wrapped = max(wrapped, len(result.Value))
					return result, err
				}
			}))
		_, outputs := told(t, agent)
		require.Equal(t, pygent.OutcomeOK, outputs[0].Outcome)
		require.Equal(t, "done", outputs[0].Content)
		require.Equal(t, omitted, outputs[0].ValueOmitted)
		require.Equal(t, omitted, outputs[0].Value == nil)
		require.Equal(t, len(value), wrapped)
	}
}

// endsWith returns a tool that only reads and ends the run.
func endsWith(name string, wait <-chan struct{}, result pygent.ToolResult) pygent.Tool {
	return plainTool(name, func(t *pygent.Tool) {
		t.ReadOnly = true
		t.Run = func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			if wait != nil {
				<-wait
			}
			return &result, nil
		}
	})
}

func TestOfCallsThatEndTheRunTheFirstCounts(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	first := endsWith("first", ended, pygent.ToolResult{Content: "one", End: pygent.StatusStopped, Summary: "the first"})
	second := endsWith("second", nil, pygent.ToolResult{Content: "two", End: pygent.StatusAwaitingUser, Question: &pygent.Question{Prompt: "Which?"}, Summary: "the second"})
	run := second.Run
	second.Run = func(ctx context.Context, rt pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
		defer close(ended) // so the first call in the message ends last
		return run(ctx, rt, args)
	}
	agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("first", nil), pygenttest.Call("second", nil))), pygent.WithTools(first, second))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "the first", result.Summary)
	require.Nil(t, result.Question)
	require.Equal(t, []string{"one", "two"}, results(agent))
}

func TestEventsOfSkippedCallsDescribeThem(t *testing.T) {
	t.Parallel()
	var skipped []pygent.Event
	deploy := plainTool("deploy", func(t *pygent.Tool) { t.Title, t.Kind = "Deploy the program", pygent.ToolRun })
	agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Calls(stop, pygenttest.Call("deploy", nil), pygenttest.Call("nope", nil))), pygent.WithTools(deploy),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolSkipped {
				skipped = append(skipped, e)
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, skipped, 2)
	require.Equal(t, "Deploy the program", skipped[0].Tool.Title)
	require.Equal(t, pygent.ToolRun, skipped[0].Tool.Kind)
	require.Equal(t, "nope", skipped[1].Tool.Name)
}

func TestOutcomesOfCalls(t *testing.T) {
	t.Parallel()
	fails := plainTool("fails", func(t *pygent.Tool) {
		t.Run = func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			return nil, errors.New("no")
		}
	})
	claims := plainTool("claims", func(t *pygent.Tool) {
		t.Run = func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "x", Outcome: pygent.OutcomeDenied}, nil
		}
	})
	misses := plainTool("misses", func(t *pygent.Tool) {
		t.Run = func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: "x", Outcome: pygent.OutcomeFailed}, nil
		}
	})
	for _, tt := range []struct {
		name string
		call pygenttest.Reply
		want pygent.Outcome
	}{
		{"a tool", pygenttest.Call("list_personas", nil), pygent.OutcomeOK},
		{"a tool that fails", pygenttest.Call("fails", nil), pygent.OutcomeFailed},
		{"a tool that says it failed", pygenttest.Call("misses", nil), pygent.OutcomeFailed},
		{"a tool that says more than it knows", pygenttest.Call("claims", nil), pygent.OutcomeOK},
		{"a command", callBash("echo '[exit code 3]'; echo error: denied"), pygent.OutcomeOK},
		{"a command that fails", callBash("exit 3"), pygent.OutcomeFailed},
		{"no such tool", pygenttest.Call("nothing", nil), pygent.OutcomeFailed},
		{"wrong arguments", pygenttest.Call("bash", map[string]any{"cmd": 3}), pygent.OutcomeFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.call, stop), pygent.WithTools(fails, claims, misses))
			_, outputs := told(t, agent)
			require.Equal(t, tt.want, outputs[0].Outcome)
		})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(stop, callBash("true"))))
	words, _ := told(t, agent)
	require.Equal(t, "tool_skipped not_run", words[len(words)-1])
}

func TestInterruptedCommandIsToldAsSuch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var outcome pygent.Outcome
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("hangs", nil)), pygent.WithTools(plainTool("hangs", func(t *pygent.Tool) {
		t.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventToolDone {
			outcome = e.Output.Outcome
		}
	}))
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, pygent.OutcomeInterrupted, outcome)
}

func TestCallFromTellsToolsAndModels(t *testing.T) {
	t.Parallel()
	_, ok := pygent.CallFrom(t.Context())
	require.False(t, ok)
	var none context.Context
	_, ok = pygent.CallFrom(none)
	require.False(t, ok)

	script := pygenttest.NewScriptedModel(pygenttest.Call("look", map[string]any{}), stop)
	var ofModel []pygent.CallInfo
	model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		info, _ := pygent.CallFrom(ctx)
		ofModel = append(ofModel, info)
		return script.Chat(ctx, req)
	})
	var ofTool pygent.CallInfo
	agent := newAgent(t, model, pygent.WithID("me"), pygent.WithTools(plainTool("look", func(t *pygent.Tool) {
		t.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			within, cancel := context.WithCancel(ctx)
			defer cancel()
			ofTool, _ = pygent.CallFrom(within)
			return nil, nil
		}
	})))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []pygent.CallInfo{{Agent: "me", Step: 1}, {Agent: "me", Step: 2}}, ofModel)
	require.Equal(t, "me look 1", fmt.Sprint(ofTool.Agent, " ", ofTool.Call.Name, " ", ofTool.Step))
	require.NotEmpty(t, ofTool.Call.ID)
}
