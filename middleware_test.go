package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// noted is model middleware that notes its calls under a name.
func noted(name string, notes *[]string) func(pygent.Model) pygent.Model {
	return func(next pygent.Model) pygent.Model {
		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
			*notes = append(*notes, name)
			return pygent.Stream(ctx, next, req, emit)
		})
	}
}

// orElse is model middleware that asks another model when one fails.
func orElse(other pygent.Model) func(pygent.Model) pygent.Model {
	return func(next pygent.Model) pygent.Model {
		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
			resp, err := pygent.Stream(ctx, next, req, emit)
			if err == nil || ctx.Err() != nil {
				return resp, err
			}
			emit(pygent.Delta{Withdrawn: true, Notice: "another model answers: " + err.Error()})
			return pygent.Stream(ctx, other, req, emit)
		})
	}
}

func TestModelMiddlewareStreamsThroughAllLayers(t *testing.T) {
	t.Parallel()
	var notes, streamed []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("one two three")),
		pygent.WithModelMiddleware(noted("a", &notes), nil, noted("b", &notes)), pygent.WithModelMiddleware(noted("c", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventText {
			streamed = append(streamed, e.Text)
		}
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, notes)
	require.Equal(t, "one two three", strings.Join(streamed, ""))
}

func TestStreamFuncsWorkWithoutAListener(t *testing.T) {
	t.Parallel()
	f := pygent.StreamFunc(func(_ context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		emit(pygent.Delta{Text: "a"})
		return &pygent.ChatResponse{Message: chat.AssistantMessage("a")}, nil
	})
	for name, ask := range map[string]func() (*pygent.ChatResponse, error){
		"Chat":       func() (*pygent.ChatResponse, error) { return f.Chat(t.Context(), &pygent.ChatRequest{}) },
		"a nil emit": func() (*pygent.ChatResponse, error) { return f.ChatStream(t.Context(), &pygent.ChatRequest{}, nil) },
		"Stream":     func() (*pygent.ChatResponse, error) { return pygent.Stream(t.Context(), f, &pygent.ChatRequest{}, nil) },
		"no streaming": func() (*pygent.ChatResponse, error) {
			return pygent.Stream(t.Context(), pygent.ModelFunc(f.Chat), &pygent.ChatRequest{}, func(pygent.Delta) { t.Error("emitted") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := ask()
			require.NoError(t, err)
			require.Equal(t, "a", resp.Message.Text())
		})
	}
}

func TestAFallbackTakesBackWhatWasStreamed(t *testing.T) {
	t.Parallel()
	broken := pygenttest.NewScriptedModel(pygenttest.Text("Half an answer").FailAfter(1, "server_error", "out of memory"))
	other := pygenttest.NewScriptedModel(pygenttest.TextAndCalls("Whole.", stop))
	var events []pygent.Event
	var shown strings.Builder
	show := lines.EventPrinter(&shown)
	agent := newAgentOn(t, nowhere{}, broken, pygent.WithModelMiddleware(orElse(other)))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		events = append(events, e)
		show(e)
	}))
	require.NoError(t, err)
	require.Equal(t, "Whole.", result.Message.Text())
	require.Len(t, broken.Requests(), 1, "the agent does not repeat what the fallback answered")

	var text string // as a face shows it
	for _, e := range events {
		switch e.Type {
		case pygent.EventText:
			text += e.Text
		case pygent.EventRetry:
			require.NotEmpty(t, text)
			require.Contains(t, e.Retry.Error, "another model answers: ")
			require.Zero(t, e.Retry.Attempt)
			text = ""
		}
	}
	require.Equal(t, "Whole.", text)
	require.Contains(t, shown.String(), "out of memory\n! what was written so far is withdrawn\nWhole.\n")
	require.NotContains(t, shown.String(), "trying again")
}

func TestRetriesGoThroughTheMiddleware(t *testing.T) {
	t.Parallel()
	var notes []string
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), pygenttest.Overloaded(), stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithModelMiddleware(noted("a", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a", "a"}, notes)
}

func TestBadMiddlewareIsAnErrorOfNew(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]pygent.Option{
		"option WithModelMiddleware: it returned no model":  pygent.WithModelMiddleware(func(pygent.Model) pygent.Model { return nil }),
		"option WithModelMiddleware: panic: no":             pygent.WithModelMiddleware(func(pygent.Model) pygent.Model { panic("no") }),
		"option WithToolMiddleware: it returned no handler": pygent.WithToolMiddleware(func(pygent.ToolHandler) pygent.ToolHandler { return nil }),
		"option WithToolMiddleware: panic: no":              pygent.WithToolMiddleware(func(pygent.ToolHandler) pygent.ToolHandler { panic("no") }),
	} {
		_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), opt)
		require.EqualError(t, err, want)
	}
}

// around makes tool middleware from a function that replaces its handler.
func around(f func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error)) pygent.Option {
	return pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler {
		return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
			return f(ctx, rt, call, next)
		}
	})
}

func TestToolMiddleware(t *testing.T) {
	t.Parallel()
	echo := pygent.Tool{
		Name:       "echo",
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		Run: func(_ context.Context, _ pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: string(args)}, nil
		},
	}
	type handler = func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error)
	for name, tt := range map[string]struct {
		handle handler
		want   string
	}{
		"passes on": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(ctx, rt, call)
		}, `{"text":"a"}`},
		"adds a note": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			result, err := next(ctx, rt, call)
			result.Content += " (noted)"
			return result, err
		}, `{"text":"a"} (noted)`},
		"denies": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			return nil, errors.New("not today")
		}, "error: not today"},
		"answers with nothing": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			return nil, nil
		}, ""},
		"panics": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			panic("oops")
		}, "error: panic: oops"},
		"changes the arguments": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			call.Arguments = `{"text":"b"}`
			return next(ctx, rt, call)
		}, "error: tool middleware: only the call that was approved can run, with its arguments"},
		"changes the tool": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			call.Name = "bash"
			return next(ctx, rt, call)
		}, "error: tool middleware: only the call that was approved can run, with its arguments"},
		"loses the context": {func(_ context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(context.Background(), rt, call)
		}, "error: tool middleware: the context is not that of the call"},
		"loses the runtime": {func(ctx context.Context, _ pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(ctx, nil, call)
		}, "error: tool middleware: the runtime is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("echo", map[string]any{"text": "a"}), stop),
				pygent.WithTools(echo), around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
					if call.Name != "echo" {
						return next(ctx, rt, call)
					}
					require.Equal(t, `{"text":"a"}`, call.Arguments)
					require.NotEmpty(t, call.ID)
					return tt.handle(ctx, rt, call, next)
				}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Equal(t, tt.want, results(agent)[0])
		})
	}
}

func TestToolMiddlewareSeesOnlyCallsThatMayRun(t *testing.T) {
	t.Parallel()
	var seen []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(
		pygenttest.Calls(pygenttest.Call("nope", nil), pygenttest.Call("bash", map[string]any{"no": 1}), callBash("denied")), stop),
		pygent.WithApprovalFor("bash"),
		around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			seen = append(seen, call.Name)
			return next(ctx, rt, call)
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"stop"}, seen)
}

func TestTasksInheritTheMiddleware(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked, ran int
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	model := pygenttest.NewScriptedModel(delegate("sub"), stop, stop).On("sub", callBash("echo a"), stop)
	agent := newAgent(t, model,
		pygent.WithModelMiddleware(func(next pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				count(&asked)
				return next.Chat(ctx, req)
			})
		}),
		around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			if call.Name == "bash" {
				count(&ran)
			}
			return next(ctx, rt, call)
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	waitTask(t, agent.Tasks(), tasks[0].ID)
	require.Equal(t, len(model.Requests()), asked)
	require.Equal(t, 1, ran)
}

func TestSetModelTakesEffectAtTheNextCall(t *testing.T) {
	t.Parallel()
	first := pygenttest.NewScriptedModel(pygenttest.Call("switch", nil))
	second := pygenttest.NewScriptedModel(pygenttest.Text("from the second"), stop)
	var agent *pygent.Agent
	var notes []string
	change := pygent.Tool{Name: "switch", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return nil, agent.SetModel(second, "second")
	}}
	agent = newAgentOn(t, nowhere{}, first, pygent.WithTools(change), pygent.WithModelMiddleware(noted("a", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, first.Requests(), 1)
	require.Equal(t, "second", second.Requests()[0].Model)
	require.Equal(t, []string{"a", "a", "a"}, notes, "the middleware wraps the new model, too")

	second.Add(pygenttest.Text("again"))
	require.NoError(t, agent.SetModel(nil, "third"))
	_, err = agent.Step(t.Context(), "and on")
	require.NoError(t, err)
	require.Equal(t, "third", second.Requests()[2].Model, "a nil model keeps the model")
}

func TestSetModelBetweenAttempts(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	healthy := pygenttest.NewScriptedModel(stop)
	agent = newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Overloaded(), pygenttest.Overloaded()),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRetry {
				require.NoError(t, agent.SetModel(healthy, "h"))
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "h", healthy.Requests()[0].Model)
}

func TestSetModelIsSafeWhileTheAgentRuns(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(callBash("true")).RepeatLast()
	agent := newAgentOn(t, nowhere{}, model)
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for range 50 {
				require.NoError(t, agent.SetModel(model, "m"))
			}
		})
	}
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(4))
	others.Wait()
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.ErrorIs(t, agent.SetModel(model, "m"), pygent.ErrAgentClosed)
}

// wrapped is a runtime around another one that shows its abilities.
type wrapped struct {
	pygent.Runtime
	shows func() pygent.Runtime
}

func (w wrapped) Unwrap() pygent.Runtime { return w.shows() }

func TestRuntimeAs(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	all := func() pygent.Runtime { return rt }
	someOnly := func() pygent.Runtime {
		return struct {
			pygent.Runtime
			pygent.Describer
		}{rt, rt.(pygent.Describer)}
	}
	for name, tt := range map[string]struct {
		rt               pygent.Runtime
		jobs, describing bool
	}{
		"itself":         {rt, true, true},
		"wrapped twice":  {wrapped{rt, func() pygent.Runtime { return wrapped{rt, all} }}, true, true},
		"hidden":         {wrapped{rt, func() pygent.Runtime { return nil }}, false, false},
		"no Unwrap":      {struct{ pygent.Runtime }{rt}, false, false},
		"some of it":     {wrapped{rt, someOnly}, false, true},
		"no runtime":     {nil, false, false},
		"without either": {nowhere{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, jobs := pygent.RuntimeAs[pygent.JobRunner](tt.rt)
			_, describing := pygent.RuntimeAs[pygent.Describer](tt.rt)
			require.Equal(t, tt.jobs, jobs)
			require.Equal(t, tt.describing, describing)
		})
	}
}

func TestAWrappedRuntimeKeepsItsAbilities(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	outer := wrapped{rt, func() pygent.Runtime { return rt }}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo from a job", "background": true}),
		delegate("sub", "in.txt"), stop, stop).On("sub", callBash("cat in.txt"), stop)
	require.NoError(t, rt.WriteFile(t.Context(), "in.txt", []byte("for the task\n")))
	agent := newAgentOn(t, outer, model)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[0], "job")
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, tasks, 1, results(agent))
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), tasks[0].ID).State)
	history, err := agent.Tasks().TaskHistory(t.Context(), tasks[0].ID)
	require.NoError(t, err)
	require.Contains(t, history[3].Content, "for the task", "the task has a runtime of the wrapped kind")
}

func TestALentRuntimeOutlivesItsAgents(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	lent := func(reply pygenttest.Reply) *pygent.Agent {
		agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(reply, stop)), pygent.LendRuntime(rt))
		require.NoError(t, err)
		return agent
	}
	first, second := lent(callBash("echo one > f")), lent(callBash("cat f"))
	_, err := first.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	_, err = second.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(second)[0], "one")
	require.NoError(t, second.Close())
	_, err = rt.Bash(t.Context(), "true")
	require.NoError(t, err)

	_, err = pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt), pygent.WithImage("i"))
	require.ErrorContains(t, err, "options LendRuntime and WithImage")
}

func TestATaskLeavesALentRuntime(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one > f"), stop), pygent.TaskAgents(pygent.LendRuntime(rt)))
	id := startTask(t, m, "go", nil)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.NoError(t, m.Remove(t.Context(), id))
	data, err := rt.ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
}

func TestAModelRefusesANilRequest(t *testing.T) {
	t.Parallel()
	m := testkit.NewModel(t, openai.BaseURL("http://127.0.0.1:1/v1"))
	_, err := m.Chat(t.Context(), nil)
	require.EqualError(t, err, "model request: it is nil")
	_, err = m.ChatStream(t.Context(), nil, func(pygent.Delta) {})
	require.EqualError(t, err, "model request: it is nil")
}

func TestModelStartNamesTheModelThatIsAsked(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var asked []string
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), stop)
	agent = newAgentOn(t, nowhere{}, model, pygent.WithModelName("one"), pygent.OnEvent(func(e pygent.Event) {
		switch e.Type {
		case pygent.EventModelStart:
			asked = append(asked, e.Model)
		case pygent.EventRetry:
			require.NoError(t, agent.SetModel(nil, "two"))
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, asked)
	require.Equal(t, "two", model.Requests()[1].Model)
}

// TestAHistoryMovesBetweenProviders switches the model of a conversation from
// server to server. Each refuses what the real one refuses.
func TestAHistoryMovesBetweenProviders(t *testing.T) {
	t.Parallel()
	type place struct {
		provider pygenttest.Provider
		api      openai.Protocol
	}
	places := []place{
		{"", openai.Responses}, {pygenttest.Mistral, openai.Chat}, {pygenttest.Gemini, openai.Chat},
		{"", openai.Chat}, {pygenttest.Ollama, openai.Chat}, {"", openai.Responses},
		{pygenttest.Gemini, openai.Chat}, {pygenttest.Mistral, openai.Chat}, {"", openai.Responses},
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	for i, p := range places {
		call := pygenttest.TextAndCalls("Let me look.", callBash(fmt.Sprint("ls ", i))).WithReasoning("Hm.")
		s := pygenttest.NewServer(t, call, pygenttest.Text("Done.").WithReasoning("Aha.")).Strict(p.provider)
		m := testkit.NewModel(t, openai.BaseURL(s.URL()), openai.API(p.api))
		require.NoError(t, agent.SetModel(m, fmt.Sprint("model-", i%2)))
		_, err := agent.RunUntilStop(t.Context(), "Go on.", pygent.WithEndOnReply())
		require.NoError(t, err, "place %d: %+v", i, p)
		require.Zero(t, s.Remaining())
	}
}

func TestASessionShowsWithdrawnTextOnce(t *testing.T) {
	t.Parallel()
	broken := pygenttest.NewScriptedModel(pygenttest.Text("Half an answer").FailAfter(1, "server_error", "out of memory"))
	var out strings.Builder
	agent := newAgentOn(t, nowhere{}, broken, pygent.WithIO(strings.NewReader("hello\n"), &out),
		pygent.WithModelMiddleware(orElse(pygenttest.NewScriptedModel(pygenttest.Text("Whole.")))))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "what was written so far is withdrawn\nWhole.\n")
	require.Equal(t, 1, strings.Count(out.String(), "Whole."))
}

func TestTasksUseTheModelThatWasSet(t *testing.T) {
	t.Parallel()
	second := pygenttest.NewScriptedModel(delegate("sub"), stop, stop).On("sub", stop)
	agent := newAgent(t, pygenttest.NewScriptedModel())
	require.NoError(t, agent.SetModel(second, "second"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), tasks[0].ID).State)
	for _, req := range second.Requests() {
		require.Equal(t, "second", req.Model)
	}
}

// wrapsItself is a runtime whose Unwrap never comes to an end.
type wrapsItself struct{ noRuntime }

func (w *wrapsItself) Unwrap() pygent.Runtime { return w }

func TestARuntimeThatWrapsItselfEndsTheSearch(t *testing.T) {
	t.Parallel()
	_, ok := pygent.RuntimeAs[pygent.JobRunner](&wrapsItself{})
	require.False(t, ok)
	agent := quick(t, pygenttest.NewScriptedModel(stop), pygent.WithRuntime(&wrapsItself{}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}
