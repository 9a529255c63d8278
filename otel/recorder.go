package otel

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	global "go.opentelemetry.io/otel"
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
	providerName  = attribute.Key("gen_ai.provider.name")
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
// [Content] asks for it.
const (
	inputMessages  = attribute.Key("gen_ai.input.messages")
	outputMessages = attribute.Key("gen_ai.output.messages")
	arguments      = attribute.Key("gen_ai.tool.call.arguments")
	callResult     = attribute.Key("gen_ai.tool.call.result")
)

// recorder begins spans. It is safe for concurrent use.
type recorder struct {
	tracer  trace.Tracer
	content bool
	log     *slog.Logger
	logged  sync.Once // a panic

	tokens            metric.Int64Histogram
	chat, first       metric.Float64Histogram // of calls of models
	agents, toolCalls metric.Float64Histogram
}

// newRecorder returns a recorder. A panic of a provider is an error.
func newRecorder(c config, log *slog.Logger) (r *recorder, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("the provider: panic: %v", p)
		}
	}()
	if c.tracers == nil {
		c.tracers = global.GetTracerProvider()
	}
	if c.meters == nil {
		c.meters = global.GetMeterProvider()
	}
	r = &recorder{tracer: c.tracers.Tracer(scope), content: c.content, log: log}
	return r, r.makeInstruments(c.meters.Meter(scope))
}

func (r *recorder) makeInstruments(m metric.Meter) (err error) {
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

// span is an operation that goes on. One goroutine uses it.
type span struct {
	of    *recorder
	ctx   context.Context // of the span, for its metrics
	span  trace.Span
	began time.Time
	took  metric.Float64Histogram // of its duration
	attrs []attribute.KeyValue    // of its metrics
}

// begin starts a span, with the attributes of its metrics and others. Those
// without a value are left out.
func (r *recorder) begin(ctx context.Context, name string, kind trace.SpanKind, took metric.Float64Histogram, attrs []attribute.KeyValue, others ...attribute.KeyValue) (context.Context, *span) {
	attrs, others = slices.DeleteFunc(attrs, isEmpty), slices.DeleteFunc(others, isEmpty)
	s := &span{of: r, ctx: ctx, span: noop.Span{}, began: time.Now(), took: took, attrs: slices.Clip(attrs)}
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

// call calls a provider. A panic there ends the call, and nothing else; the first one is
// logged.
func (r *recorder) call(provider func()) {
	defer func() {
		if p := recover(); p != nil {
			r.logged.Do(func() {
				r.log.Error("OpenTelemetry's provider panicked", "error", fmt.Sprint(p), "stack", string(debug.Stack()))
			})
		}
	}()
	provider()
}

// run begins the span of an agent's run.
func (r *recorder) run(ctx context.Context, id, name, model string) (context.Context, *span) {
	return r.begin(ctx, named("invoke_agent", name), trace.SpanKindInternal, r.agents,
		[]attribute.KeyValue{agentName.String(name)},
		operation.String("invoke_agent"), agentID.String(id), requestModel.String(model))
}

// model begins the span of a call of a model.
func (r *recorder) model(ctx context.Context, by provider, model string) (context.Context, *span) {
	attrs := []attribute.KeyValue{operation.String("chat"), providerName.String(by.name), requestModel.String(model)}
	if by.host != "" {
		attrs = append(attrs, serverAddress.String(by.host), serverPort.Int(by.port))
	}
	return r.begin(ctx, named("chat", model), trace.SpanKindClient, r.chat, attrs, requestStream.Bool(true))
}

// toolCall says what a call of a tool is.
type toolCall struct{ agent, tool, about, id string }

// tool begins the span of a call of a tool.
func (r *recorder) tool(ctx context.Context, call toolCall) (context.Context, *span) {
	return r.begin(ctx, named("execute_tool", call.tool), trace.SpanKindInternal, r.toolCalls,
		[]attribute.KeyValue{toolName.String(call.tool), toolType.String("function"), agentName.String(call.agent)},
		operation.String("execute_tool"), toolCallID.String(call.id), toolAbout.String(call.about))
}

func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// streamed notes after how long an answer began to stream.
func (s *span) streamed(after time.Duration) {
	s.set(firstChunk.Float64(after.Seconds()))
	s.of.call(func() { s.of.first.Record(s.ctx, after.Seconds(), metric.WithAttributes(s.attrs...)) })
}

// writeContent writes what was said, if that is wanted.
func (s *span) writeContent(key attribute.Key, text func() string) {
	if s.of.content {
		said := text()
		s.set(key.String(said))
	}
}

// answer is what is known of a model's answer. Zero fields are not known.
type answer struct {
	model, id, finish string

	input, output                 int64 // tokens
	cached, cacheWrite, reasoning int64 // of those
}

// answered notes a model's answer.
func (s *span) answered(a answer) {
	if a.model != "" {
		s.attrs = append(s.attrs, responseModel.String(a.model))
		s.set(responseModel.String(a.model))
	}
	if a.id != "" {
		s.set(responseID.String(a.id))
	}
	if a.finish != "" {
		s.set(finishReasons.StringSlice([]string{a.finish}))
	}
	s.used(a)
	s.count("input", a.input)
	s.count("output", a.output)
}

// used notes tokens on the span, without counting them in a metric.
func (s *span) used(a answer) {
	if a.input+a.output == 0 {
		return
	}
	s.set(inputTokens.Int64(a.input), outputTokens.Int64(a.output))
	if a.cached > 0 {
		s.set(cachedTokens.Int64(a.cached))
	}
	if a.cacheWrite > 0 {
		s.set(writtenTokens.Int64(a.cacheWrite))
	}
	if a.reasoning > 0 {
		s.set(reasonTokens.Int64(a.reasoning))
	}
}

func (s *span) count(kind string, tokens int64) {
	if tokens > 0 {
		s.of.call(func() {
			s.of.tokens.Record(s.ctx, tokens, metric.WithAttributes(s.attrs...), metric.WithAttributes(tokenType.String(kind)))
		})
	}
}

func (s *span) set(attrs ...attribute.KeyValue) {
	s.of.call(func() { s.span.SetAttributes(attrs...) })
}

// end ends the span. failure is the kind of error that it ended with, one of few;
// empty means none.
func (s *span) end(failure string) {
	if failure != "" {
		s.attrs = append(s.attrs, errorType.String(failure))
		s.set(errorType.String(failure))
		s.of.call(func() { s.span.SetStatus(codes.Error, failure) })
	}
	s.of.call(func() { s.took.Record(s.ctx, time.Since(s.began).Seconds(), metric.WithAttributes(s.attrs...)) })
	s.of.call(func() { s.span.End() })
}
