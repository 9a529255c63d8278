package pygent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
)

// traced is an extension that records in which order its functions are called.
type traced struct {
	name string
	life func(h *pygent.Host, l *pygent.Lifecycle) // may change what it does

	mu    sync.Mutex
	calls []string
	first time.Duration // of the last model call
}

func newTraced() *traced { return &traced{name: "traced"} }

func (x *traced) Name() string { return x.name }

func (x *traced) note(call string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls = append(x.calls, call)
}

func (x *traced) noted() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls
}

type tracedKey struct{}

// begin notes that something begins, and whether that is within something else.
func (x *traced) begin(ctx context.Context, what string) (context.Context, func()) {
	within, _ := ctx.Value(tracedKey{}).(string)
	x.note(strings.TrimSpace("+" + what + " " + within))
	return context.WithValue(ctx, tracedKey{}, "in "+what), func() { x.note("-" + what) }
}

func (x *traced) Open(_ context.Context, h *pygent.Host) (pygent.Lifecycle, error) {
	x.note("open")
	l := pygent.Lifecycle{
		Ready: func(context.Context) error { x.note("ready"); return nil },
		Hooks: pygent.Hooks{
			RunStart: func(context.Context, *pygent.Agent, string) (string, error) { x.note("run start"); return "", nil },
			BeforeCall: func(_ context.Context, _ *pygent.Agent, c pygent.ToolCall) (pygent.CallVerdict, error) {
				x.note("before " + c.Name)
				return pygent.CallVerdict{}, nil
			},
			RunEnd: func(context.Context, *pygent.Agent, *pygent.Result) error { x.note("run end"); return nil },
		},
		Prompt: func(_ context.Context, _ *pygent.PromptInfo, again bool) error {
			x.note(fmt.Sprint("prompt ", again))
			return nil
		},
		News: func(*pygent.PromptInfo) string { x.note("news"); return "" },
		AfterCall: func(_ context.Context, c pygent.ToolCall, _ *pygent.ToolResult) string {
			x.note("after " + c.Name)
			return ""
		},
		TraceRun: func(ctx context.Context, r *pygent.RunTrace) (context.Context, func()) {
			ctx, end := x.begin(ctx, "run")
			return ctx, func() {
				x.note("run " + string(r.Result.Status))
				end()
			}
		},
		TraceModel: func(ctx context.Context, m *pygent.ModelTrace) (context.Context, func()) {
			ctx, end := x.begin(ctx, "model "+m.Name)
			return ctx, func() {
				x.mu.Lock()
				x.first = m.FirstDelta
				x.mu.Unlock()
				if m.Err != nil {
					x.note("failed")
				}
				end()
			}
		},
		TraceTool: func(ctx context.Context, c *pygent.ToolTrace) (context.Context, func()) {
			return x.begin(ctx, c.Call.Name)
		},
		Closing: func(context.Context) error { x.note("closing"); return nil },
		Close:   func() error { x.note("close"); return nil },
	}
	if x.life != nil {
		x.life(h, &l)
	}
	return l, nil
}

// The order that [pygent.Extension] describes.
func TestTheOrderOfTheCallsOfAnExtension(t *testing.T) {
	t.Parallel()
	x := newTraced()
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), callBash("ls"), stop, stop, stop)
	agent := newAgentOn(t, cleansUp{func() { x.note("clean up") }}, model, pygent.WithModelName("m"), pygent.WithExtension(x),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRunEnd {
				x.note("last event")
			}
		}))
	for i := range 3 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		if i == 0 {
			agent.RefreshSystemMessage()
		} else {
			agent.SetPersona(pygent.Persona{Name: "Ada"})
		}
	}
	require.NoError(t, agent.Close())
	ends := []string{"+model m in run", "-model m", "before stop", "+stop in run", "-stop", "after stop", "run end", "last event", "run stopped", "-run"}
	require.Equal(t, slices.Concat([]string{
		"open", "ready", "+run", "run start", "prompt false",
		"+model m in run", "failed", "-model m", "+model m in run", "-model m", "before bash", "+bash in run", "-bash", "after bash", "news",
	}, ends, []string{"prompt true", "+run", "run start", "news"}, ends, []string{"+run", "run start", "news", "prompt false"}, ends,
		[]string{"closing", "clean up", "close"}), x.noted())
	require.Positive(t, x.first)
}

// cleansUp is a runtime that tells when it is cleaned up.
type cleansUp struct{ told func() }

func (cleansUp) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{Command: cmd}, nil
}
func (cleansUp) ReadFile(context.Context, string) ([]byte, error) { return nil, errors.ErrUnsupported }
func (cleansUp) WriteFile(context.Context, string, []byte) error  { return errors.ErrUnsupported }
func (cleansUp) UploadFile(context.Context, string, string) error { return errors.ErrUnsupported }
func (cleansUp) ExportFile(context.Context, string, string) error { return errors.ErrUnsupported }
func (c cleansUp) Cleanup() error                                 { c.told(); return nil }

func TestExtensionsEndInTheReverseOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var all []string
	ending := func(name string) *traced {
		return &traced{name: name, life: func(_ *pygent.Host, l *pygent.Lifecycle) {
			note := func(what string) error {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, name+" "+what)
				return errors.New(name + " fails")
			}
			l.RunEnd = func(context.Context, *pygent.Agent, *pygent.Result) error { return note("run end") }
			l.TraceRun = func(ctx context.Context, _ *pygent.RunTrace) (context.Context, func()) {
				return ctx, func() { _ = note("trace end") }
			}
			l.Closing = func(context.Context) error { return note("closing") }
			l.Close = func() error { return note("close") }
		}}
	}
	replaced := ending("a")
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(noRuntime{}),
		pygent.WithExtension(replaced), pygent.WithExtension(ending("a"), nil, ending("b")))
	require.NoError(t, err)
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.EqualError(t, agent.Close(), "extension b: b fails\nextension a: a fails\nextension b: b fails\nextension a: a fails")
	require.Equal(t, []string{"a run end", "b run end", "b trace end", "a trace end", "b closing", "a closing", "b close", "a close"}, all)
	require.Empty(t, replaced.noted(), "a later one has its name")
}

func TestAnExtensionThatFailsIsAnErrorOfNew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		life func(*pygent.Host, *pygent.Lifecycle)
		says string
		ends bool // the extension itself was open
	}{
		"panics": {func(*pygent.Host, *pygent.Lifecycle) { panic("oh") }, "extension fails: panic: oh", false},
		"not ready": {func(_ *pygent.Host, l *pygent.Lifecycle) {
			l.Ready = func(context.Context) error { return errors.New("no") }
		}, "extension fails: no", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, fails := newTraced(), &traced{name: "fails", life: tt.life}
			_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(noRuntime{}), pygent.WithExtension(before, fails))
			require.EqualError(t, err, tt.says)
			require.Equal(t, "close", before.noted()[len(before.noted())-1], "what was opened is closed")
			if tt.ends {
				require.Equal(t, []string{"open", "close"}, fails.noted())
			}
		})
	}
}

// Close would wait for its caller.
func TestAnExtensionCannotCloseItsAgent(t *testing.T) {
	t.Parallel()
	closed := map[string]error{}
	x := newTraced()
	x.life = func(h *pygent.Host, l *pygent.Lifecycle) {
		from := func(where string) { closed[where] = h.Agent.Close() }
		from("open")
		l.Ready = func(context.Context) error { from("ready"); return nil }
		l.TraceRun = func(ctx context.Context, _ *pygent.RunTrace) (context.Context, func()) {
			from("run begins")
			return ctx, func() { from("run ends") }
		}
		l.TraceModel = func(ctx context.Context, _ *pygent.ModelTrace) (context.Context, func()) {
			from("model begins")
			return ctx, func() { from("model ends") }
		}
		l.TraceTool = func(ctx context.Context, _ *pygent.ToolTrace) (context.Context, func()) {
			from("tool begins")
			return ctx, func() { from("tool ends") }
		}
		l.Closing = func(context.Context) error { from("closing"); return nil }
		l.Close = func() error { from("close"); return nil }
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithExtension(x))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Len(t, closed, 10)
	for where, err := range closed {
		require.ErrorIs(t, err, pygent.ErrInCallback, where)
	}
}

func TestAnAgentCanBeUsedWhenItsExtensionIsReady(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]error{"": nil, "and fails then": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of *pygent.Agent
			x := newTraced()
			x.life = func(h *pygent.Host, l *pygent.Lifecycle) {
				of = h.Agent
				l.Ready = func(ctx context.Context) error {
					result, err := of.RunUntilStop(ctx, "go")
					require.NoError(t, err)
					require.Equal(t, pygent.StatusStopped, result.Status)
					return fails
				}
			}
			rt := cleansUp{func() { x.note("clean up") }}
			agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(callBash("ls"), stop, stop)), pygent.WithRuntime(rt), pygent.WithExtension(x))
			if fails == nil {
				require.NoError(t, err)
				require.NoError(t, agent.Close())
				return
			}
			require.EqualError(t, err, "extension traced: no")
			require.NotContains(t, x.noted(), "clean up", "it is the caller's")
			require.NotContains(t, x.noted(), "closing")
			_, err = of.RunUntilStop(t.Context(), "go on")
			require.ErrorIs(t, err, pygent.ErrAgentClosed)
		})
	}
}

// Who goes on with the session without it is told.
func TestASetupCountsTheExtensionsThatDecide(t *testing.T) {
	t.Parallel()
	traces := &traced{name: "traces", life: func(_ *pygent.Host, l *pygent.Lifecycle) { l.Hooks = pygent.Hooks{} }}
	hooks := pygent.Hooks{RunStart: func(context.Context, *pygent.Agent, string) (string, error) { return "", nil }}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithExtension(newTraced(), traces), pygent.WithHooks(hooks))
	require.Equal(t, 2, agent.Setup().Hooks)
}

// News follow the message that was written before, which stays as it is.
func TestNewsOfAnExtensionAreToldOnceIfThePromptShowsThem(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]pygent.Option{
		"shown":     nil,
		"left out":  {pygent.WithPrompt(func(pygent.PromptInfo) string { return "You are brief." })},
		"in a note": {pygent.WithPrompt(func(info pygent.PromptInfo) string { return fmt.Sprint(info.Sections) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var weather atomic.Value
			weather.Store("dry")
			adds := func(info *pygent.PromptInfo) {
				info.Sections = []pygent.PromptSection{{Title: "Weather", Text: "It is " + weather.Load().(string) + "."}}
			}
			told := "dry"
			x := &traced{name: "weather", life: func(_ *pygent.Host, l *pygent.Lifecycle) {
				l.Prompt = func(_ context.Context, info *pygent.PromptInfo, _ bool) error { adds(info); return nil }
				l.News = func(info *pygent.PromptInfo) string {
					if told == weather.Load() {
						return ""
					}
					told = weather.Load().(string)
					adds(info)
					return "[It is " + told + " now.]"
				}
				l.TraceTool = func(ctx context.Context, c *pygent.ToolTrace) (context.Context, func()) {
					if c.Call.Name == "bash" {
						weather.Store("wet")
					}
					return ctx, nil
				}
			}}
			model := pygenttest.NewScriptedModel(pygenttest.Calls(callBash("ls"), callBash("pwd")), callBash("true"), stop, stop)
			agent := newAgentOn(t, nowhere{}, model, append(opts, pygent.WithExtension(x))...)
			for i := range 2 {
				_, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				if i == 0 {
					weather.Store("cold")
				}
			}
			for _, req := range model.Requests() {
				require.Equal(t, model.Requests()[0].Messages[0].Content, req.Messages[0].Content)
			}
			var with []int
			for i, m := range agent.History().Messages() {
				if strings.Contains(m.Content, " now.]") {
					with = append(with, i)
				}
			}
			if name == "left out" {
				require.Empty(t, with)
				return
			}
			messages := agent.History().Messages()
			require.Len(t, with, 2)
			require.True(t, strings.HasSuffix(results(agent)[1], "\n[It is wet now.]"), "below the last result of the message")
			require.Equal(t, []any{chat.RoleUser, "[It is cold now.]"}, []any{messages[with[1]].Role, messages[with[1]].Content}, "with the next message of the user")
		})
	}
}

func TestWhatAnExtensionSaysAfterACallIsForTheModelAlone(t *testing.T) {
	t.Parallel()
	x := &traced{name: "says", life: func(_ *pygent.Host, l *pygent.Lifecycle) {
		l.AfterCall = func(ctx context.Context, c pygent.ToolCall, r *pygent.ToolResult) string {
			of, ok := pygent.CallFrom(ctx)
			require.True(t, ok)
			require.Equal(t, c, of.Call)
			switch {
			case c.Name == "stop":
				panic("oh")
			case r.Outcome == chat.OutcomeDenied:
				return "[it is denied]"
			}
			r.Content = "" // has no effect
			return "[it ran]" + strings.Repeat("x", 1<<20)
		}
	}}
	var log bytes.Buffer
	var shown []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(callBash("ls"), pygenttest.Call("write_file", map[string]any{"path": "a", "content": "b"}), stop),
		pygent.WithExtension(x), pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), pygent.WithApprovalFor("write_file"),
		pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return pygent.Decision{}, nil }),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone {
				shown = append(shown, e.Output.Display)
			}
		}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, results(agent)[0], "\n[it ran]xx")
	require.Less(t, len(results(agent)[0]), 100<<10)
	require.Contains(t, results(agent)[1], "denied by the user\n[it is denied]")
	require.Equal(t, "error: denied by the user", shown[1])
	require.NotContains(t, shown[0], "it ran")
	require.Contains(t, log.String(), "extension says panicked")
}

// It is to look again, too, where the last time failed.
func TestAPromptOfAnExtensionThatFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	fails := errors.New("no paper")
	var looked []bool
	x := &traced{name: "paper", life: func(_ *pygent.Host, l *pygent.Lifecycle) {
		l.Prompt = func(_ context.Context, _ *pygent.PromptInfo, again bool) error {
			looked = append(looked, again)
			return fails
		}
	}}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithExtension(x))
	agent.RefreshSystemMessage()
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.EqualError(t, err, "system message: no paper")
	fails = nil
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true}, looked)
}

// What traces a run has no say in it.
func TestATraceThatPanicsIsLogged(t *testing.T) {
	t.Parallel()
	x := newTraced()
	x.life = func(_ *pygent.Host, l *pygent.Lifecycle) {
		l.TraceRun = func(context.Context, *pygent.RunTrace) (context.Context, func()) { panic("at the start") }
		l.TraceTool = func(context.Context, *pygent.ToolTrace) (context.Context, func()) {
			return nil, func() { panic("at the end") }
		}
		l.TraceModel = func(context.Context, *pygent.ModelTrace) (context.Context, func()) { return nil, nil }
	}
	var log bytes.Buffer
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(callBash("ls"), stop), pygent.WithExtension(x), pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, 1, strings.Count(log.String(), "at the start"))
	require.Equal(t, 2, strings.Count(log.String(), "panic: at the end"))
}

func TestForksOpenAllExtensions(t *testing.T) {
	t.Parallel()
	x := newTraced()
	agent := newAgentOf(t, pygent.WithExtension(x), checkpoint.Keep(t.TempDir()), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()),
		pygent.WithModel(pygenttest.NewScriptedModel(callBash("echo 1 > a"), stop)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	fork, err := agent.Fork(t.Context(), agent.Checkpoints()[0].ID)
	require.NoError(t, err)
	require.NoError(t, fork.Close())
	require.Equal(t, []string{"open", "ready", "closing", "close"}, x.noted()[len(x.noted())-4:])
}

func TestTasksOpenTheExtensionsThatTheyInherit(t *testing.T) {
	t.Parallel()
	alone, shared := newTraced(), &traced{name: "shared", life: func(_ *pygent.Host, l *pygent.Lifecycle) { l.Inherit = true }}
	agent := newAgent(t, pygenttest.NewScriptedModel(delegate("sub"), stop, stop).On("sub", stop), pygent.WithExtension(alone, shared), pygent.WithHistory(nil))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	waitTask(t, agent.Tasks(), tasks[0].ID)
	require.NoError(t, agent.Close())
	count := func(x *traced, call string) (n int) {
		for _, c := range x.noted() {
			if c == call {
				n++
			}
		}
		return n
	}
	require.Equal(t, []int{1, 1, 2, 2}, []int{count(alone, "open"), count(alone, "close"), count(shared, "open"), count(shared, "close")})
}

func TestAnExtensionThatDoesNotCloseIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		x := newTraced()
		x.life = func(_ *pygent.Host, l *pygent.Lifecycle) { l.Close = func() error { <-stuck; return nil } }
		agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(noRuntime{}), pygent.WithExtension(x))
		require.NoError(t, err)
		err = agent.Close()
		require.ErrorIs(t, err, pygent.ErrLeftBehind)
		require.ErrorContains(t, err, "the extension traced")
		close(stuck)
	})
}

func TestTheLogTellsDurationsWithIDs(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), callBash("true").WithCallIDs("c7"), stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithID("a1"), pygent.WithModelName("m"),
		pygent.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Regexp(t, `msg="model called" agent=a1 step=1 model=m took=\S+ error="the model's server failed \(503`, log.String())
	require.Regexp(t, `msg="model call failed; retrying" agent=a1 step=1 attempt=1`, log.String())
	require.Regexp(t, `msg="tool called" agent=a1 step=1 tool=bash id=c7 took=`, log.String())
}

// With -race.
func TestSetPersonaWhileARunBegins(t *testing.T) {
	t.Parallel()
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: "hm"}}, nil
	})
	agent := quick(t, model, pygent.WithExtension(newTraced()))
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for !over.Load() {
			agent.SetPersona(pygent.Persona{Name: "P"})
		}
	})
	for range 50 {
		_, err := agent.RunUntilStop(t.Context(), "x", pygent.WithEndOnReply())
		require.NoError(t, err)
	}
	over.Store(true)
	wg.Wait()
}

type panicsByName struct{ pygent.Model }

func (panicsByName) DefaultModel() string { panic("no name") }

func TestAModelWhoseNamePanics(t *testing.T) {
	t.Parallel()
	agent := quick(t, panicsByName{pygenttest.NewScriptedModel(pygenttest.Text("hi"))})
	require.NotPanics(t, func() { _, _ = agent.RunUntilStop(t.Context(), "x", pygent.WithEndOnReply()) })
}

// slowToEnd emits its first piece after it was left behind.
type slowToEnd struct{ emitted chan struct{} }

func (slowToEnd) Chat(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	panic("it streams")
}

func (m slowToEnd) ChatStream(ctx context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
	<-ctx.Done()
	time.Sleep(time.Minute)
	emit(pygent.Delta{Text: "late"})
	close(m.emitted)
	return nil, ctx.Err()
}

// With -race.
func TestAModelThatIsLeftBehindDoesNotReachItsSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := slowToEnd{make(chan struct{})}
		agent := quick(t, m, pygent.WithExtension(newTraced()))
		_, err := agent.RunUntilStop(ctx, "x")
		require.Error(t, err)
		<-m.emitted
	})
}
