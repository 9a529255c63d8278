package docker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// counting counts the spans that are started.
type counting struct {
	noop.TracerProvider
	started *atomic.Int64
}

func (c counting) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return countingTracer{started: c.started}
}

type countingTracer struct {
	noop.Tracer
	started *atomic.Int64
}

func (c countingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c.started.Add(1)
	return c.Tracer.Start(ctx, name, opts...)
}

// The spans that a program gets are those that are documented, and none of the client's own.
func TestTheClientOfTheEngineStartsNoSpans(t *testing.T) {
	before := otel.GetTracerProvider()
	all := counting{started: new(atomic.Int64)}
	otel.SetTracerProvider(all)
	defer otel.SetTracerProvider(before)
	engine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer engine.Close()
	c, err := endpoint{host: "tcp://" + engine.Listener.Addr().String()}.connect(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Zero(t, all.started.Load())
}
