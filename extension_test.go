package pygent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), callBash("ls"), stop)
	agent := newAgentOn(t, cleansUp{func() { x.note("clean up") }}, model, pygent.WithModelName("m"), pygent.WithExtension(x),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRunEnd {
				x.note("last event")
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Equal(t, []string{
		"open", "ready", "+run", "run start",
		"+model m in run", "failed", "-model m", "+model m in run", "-model m", "before bash", "+bash in run", "-bash",
		"+model m in run", "-model m", "before stop", "+stop in run", "-stop",
		"run end", "last event", "run stopped", "-run",
		"closing", "clean up", "close",
	}, x.noted())
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
			l.Closing = func(context.Context) error { return note("closing") }
			l.Close = func() error { return note("close") }
		}}
	}
	replaced := ending("a")
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(noRuntime{}),
		pygent.WithExtension(replaced), pygent.WithExtension(ending("a"), nil, ending("b")))
	require.NoError(t, err)
	require.EqualError(t, agent.Close(), "extension b: b fails\nextension a: a fails\nextension b: b fails\nextension a: a fails")
	require.Equal(t, []string{"b closing", "a closing", "b close", "a close"}, all)
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
		agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(noRuntime{}), pygent.WithInstructions(false), pygent.WithExtension(x))
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
	require.Regexp(t, `msg="model called" agent=a1 step=1 model=m took=\S+ error="model API: status 503`, log.String())
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
