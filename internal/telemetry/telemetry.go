// Package telemetry writes the spans and metrics of agents by OpenTelemetry's
// semantic conventions for generative AI. It uses OpenTelemetry's API alone:
// where they go is up to the providers that the program sets up.
//
// Everything works on a nil [Recorder] and a nil [Span], and then costs nothing.
package telemetry

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const scope = "github.com/x/pygent"

// The names of the conventions.
const (
	operation     = attribute.Key("gen_ai.operation.name")
	provider      = attribute.Key("gen_ai.provider.name")
	agentID       = attribute.Key("gen_ai.agent.id")
	agentName     = attribute.Key("gen_ai.agent.name")
	requestModel  = attribute.Key("gen_ai.request.model")
	requestStream = attribute.Key("gen_ai.request.stream")
	firstChunk    = attribute.Key("gen_ai.response.time_to_first_chunk")
	responseModel = attribute.Key("gen_ai.response.model")
	responseID    = attribute.Key("gen_ai.response.id")
	finishReasons = attribute.Key("gen_ai.response.finish_reasons")
	inputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	outputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	cachedTokens  = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	writtenTokens = attribute.Key("gen_ai.usage.cache_creation.input_tokens")
	reasonTokens  = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	tokenType     = attribute.Key("gen_ai.token.type")
	toolName      = attribute.Key("gen_ai.tool.name")
	toolCallID    = attribute.Key("gen_ai.tool.call.id")
	toolType      = attribute.Key("gen_ai.tool.type")
	toolAbout     = attribute.Key("gen_ai.tool.description")
	serverAddress = attribute.Key("server.address")
	serverPort    = attribute.Key("server.port")
	errorType     = attribute.Key("error.type")
)

// The attributes that hold what was said. They are written only if
// [Config].Content is set.
const (
	InputMessages  = attribute.Key("gen_ai.input.messages")
	OutputMessages = attribute.Key("gen_ai.output.messages")
	Arguments      = attribute.Key("gen_ai.tool.call.arguments")
	CallResult     = attribute.Key("gen_ai.tool.call.result")
)

// Config says where spans and metrics go. A nil provider is the global one.
type Config struct {
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	Content bool // also write what was said
	// Panicked is told of the first panic of a provider. What the provider was to
	// do is left out. nil means nobody is told.
	Panicked func(value any, stack []byte)
}

// Recorder begins spans. It is safe for concurrent use.
type Recorder struct {
	tracer   trace.Tracer
	content  bool
	panicked func(value any, stack []byte)
	told     sync.Once // of a panic

	tokens            metric.Int64Histogram
	chat, first       metric.Float64Histogram // of calls of models
	agents, toolCalls metric.Float64Histogram
}

// New returns a recorder. A panic of a provider is an error.
func New(c Config) (r *Recorder, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("the provider: panic: %v", p)
		}
	}()
	if c.Tracers == nil {
		c.Tracers = otel.GetTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = otel.GetMeterProvider()
	}
	r = &Recorder{tracer: c.Tracers.Tracer(scope), content: c.Content, panicked: c.Panicked}
	return r, r.makeInstruments(c.Meters.Meter(scope))
}

func (r *Recorder) makeInstruments(m metric.Meter) (err error) {
	if r.tokens, err = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)); err != nil {
		return err
	}
	short := []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	long := []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6}
	for _, h := range []struct {
		to          *metric.Float64Histogram
		name, about string
		bounds      []float64
	}{
		{&r.chat, "gen_ai.client.operation.duration", "GenAI operation duration.", short},
		{&r.first, "gen_ai.client.operation.time_to_first_chunk", "Time to receive the first chunk of a streamed answer.", short},
		{&r.agents, "gen_ai.invoke_agent.duration", "The end-to-end duration of a single agent invocation.", long},
		{&r.toolCalls, "gen_ai.execute_tool.duration", "The duration of a single tool execution.", short},
	} {
		if *h.to, err = m.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.about), metric.WithExplicitBucketBoundaries(h.bounds...)); err != nil {
			return err
		}
	}
	return nil
}

// Span is an operation that goes on. One goroutine uses it, except that another
// one may call Wrote.
type Span struct {
	of      *Recorder
	ctx     context.Context // of the span, for its metrics
	span    trace.Span
	began   time.Time
	took    metric.Float64Histogram // of its duration
	attrs   []attribute.KeyValue    // of its metrics
	written bool
}

// begin starts a span, with the attributes of its metrics and others. Those
// without a value are left out.
func (r *Recorder) begin(ctx context.Context, name string, kind trace.SpanKind, took metric.Float64Histogram, attrs []attribute.KeyValue, others ...attribute.KeyValue) (context.Context, *Span) {
	attrs, others = slices.DeleteFunc(attrs, isEmpty), slices.DeleteFunc(others, isEmpty)
	s := &Span{of: r, ctx: ctx, span: noop.Span{}, began: time.Now(), took: took, attrs: slices.Clip(attrs)}
	r.call(func() {
		within, span := r.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...), trace.WithAttributes(others...))
		if within != nil && span != nil {
			s.ctx, s.span = within, span
		}
	})
	return s.ctx, s
}

func isEmpty(kv attribute.KeyValue) bool {
	return kv.Value.Type() == attribute.STRING && kv.Value.AsString() == ""
}

// call calls a provider. A panic there ends the call, and nothing else.
func (r *Recorder) call(provider func()) {
	defer func() {
		if p := recover(); p != nil && r.panicked != nil {
			r.told.Do(func() { r.panicked(p, debug.Stack()) })
		}
	}()
	provider()
}

// Run begins the span of an agent's run.
func (r *Recorder) Run(ctx context.Context, id, name, model string) (context.Context, *Span) {
	if r == nil {
		return ctx, nil
	}
	return r.begin(ctx, named("invoke_agent", name), trace.SpanKindInternal, r.agents,
		[]attribute.KeyValue{agentName.String(name)},
		operation.String("invoke_agent"), agentID.String(id), requestModel.String(model))
}

// Chat begins the span of a call of a model.
func (r *Recorder) Chat(ctx context.Context, by Provider, model string) (context.Context, *Span) {
	if r == nil {
		return ctx, nil
	}
	attrs := []attribute.KeyValue{operation.String("chat"), provider.String(by.Name), requestModel.String(model)}
	if by.Host != "" {
		attrs = append(attrs, serverAddress.String(by.Host), serverPort.Int(by.Port))
	}
	return r.begin(ctx, named("chat", model), trace.SpanKindClient, r.chat, attrs, requestStream.Bool(true))
}

// ToolCall says what a call of a tool is.
type ToolCall struct{ Agent, Tool, About, ID string }

// Tool begins the span of a call of a tool.
func (r *Recorder) Tool(ctx context.Context, call ToolCall) (context.Context, *Span) {
	if r == nil {
		return ctx, nil
	}
	return r.begin(ctx, named("execute_tool", call.Tool), trace.SpanKindInternal, r.toolCalls,
		[]attribute.KeyValue{toolName.String(call.Tool), toolType.String("function"), agentName.String(call.Agent)},
		operation.String("execute_tool"), toolCallID.String(call.ID), toolAbout.String(call.About))
}

func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// Wrote notes that a piece of a streamed answer came.
func (s *Span) Wrote() {
	if s == nil || s.written {
		return
	}
	s.written = true
	after := time.Since(s.began).Seconds()
	s.set(firstChunk.Float64(after))
	s.of.call(func() { s.of.first.Record(s.ctx, after, metric.WithAttributes(s.attrs...)) })
}

// Content writes what was said, if that is wanted.
func (s *Span) Content(key attribute.Key, text func() string) {
	if s != nil && s.of.content {
		said := text()
		s.set(key.String(said))
	}
}

// Answer is what is known of a model's answer. Zero fields are not known.
type Answer struct {
	Model, ID, Finish string

	Input, Output                 int64 // tokens
	Cached, CacheWrite, Reasoning int64 // of those
}

// Answered notes a model's answer.
func (s *Span) Answered(a Answer) {
	if s == nil {
		return
	}
	if a.Model != "" {
		s.attrs = append(s.attrs, responseModel.String(a.Model))
		s.set(responseModel.String(a.Model))
	}
	if a.ID != "" {
		s.set(responseID.String(a.ID))
	}
	if a.Finish != "" {
		s.set(finishReasons.StringSlice([]string{a.Finish}))
	}
	s.Used(a)
	s.count("input", a.Input)
	s.count("output", a.Output)
}

// Used notes tokens on the span, without counting them in a metric.
func (s *Span) Used(a Answer) {
	if s == nil || a.Input+a.Output == 0 {
		return
	}
	s.set(inputTokens.Int64(a.Input), outputTokens.Int64(a.Output))
	if a.Cached > 0 {
		s.set(cachedTokens.Int64(a.Cached))
	}
	if a.CacheWrite > 0 {
		s.set(writtenTokens.Int64(a.CacheWrite))
	}
	if a.Reasoning > 0 {
		s.set(reasonTokens.Int64(a.Reasoning))
	}
}

func (s *Span) count(kind string, tokens int64) {
	if tokens > 0 {
		s.of.call(func() {
			s.of.tokens.Record(s.ctx, tokens, metric.WithAttributes(s.attrs...), metric.WithAttributes(tokenType.String(kind)))
		})
	}
}

func (s *Span) set(attrs ...attribute.KeyValue) {
	s.of.call(func() { s.span.SetAttributes(attrs...) })
}

// End ends the span. failure is the kind of error that it ended with, one of few;
// empty means none.
func (s *Span) End(failure string) {
	if s == nil {
		return
	}
	if failure != "" {
		s.attrs = append(s.attrs, errorType.String(failure))
		s.set(errorType.String(failure))
		s.of.call(func() { s.span.SetStatus(codes.Error, failure) })
	}
	s.of.call(func() { s.took.Record(s.ctx, time.Since(s.began).Seconds(), metric.WithAttributes(s.attrs...)) })
	s.of.call(func() { s.span.End() })
}
