package pygent_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// With -race.
func TestSetPersonaWhileARunBegins(t *testing.T) {
	t.Parallel()
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{Message: pygent.Message{Role: pygent.RoleAssistant, Content: "hm"}}, nil
	})
	agent := quick(t, model, pygent.WithTelemetry(pygent.TelemetryTracer(noop.NewTracerProvider())))
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
		agent := quick(t, m, pygent.WithTelemetry(pygent.TelemetryTracer(noop.NewTracerProvider())))
		_, err := agent.RunUntilStop(ctx, "x")
		require.Error(t, err)
		<-m.emitted
	})
}
