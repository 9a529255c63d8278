package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/otel"
	"github.com/x/pygent/pygenttest"
)

// recorder is a provider of tracers and meters that keeps what it gets.
type recorder struct {
	tracenoop.TracerProvider
	metricnoop.MeterProvider

	mu      sync.Mutex
	spans   []*recordedSpan
	metrics map[string][]attribute.Set
}

type recordedSpan struct {
	tracenoop.Span
	in     *recorder
	id     trace.SpanContext
	parent trace.SpanContext
	name   string
	kind   trace.SpanKind
	attrs  map[attribute.Key]attribute.Value
	failed bool
	ended  bool
}

type recordingTracer struct {
	tracenoop.Tracer
	in *recorder
}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return recordingTracer{in: r} }

func (t recordingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	c := trace.NewSpanStartConfig(opts...)
	s := &recordedSpan{in: t.in, name: name, kind: c.SpanKind(), parent: trace.SpanContextFromContext(ctx), attrs: map[attribute.Key]attribute.Value{},
		id: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{byte(len(t.in.spans) + 1)}})}
	for _, kv := range c.Attributes() {
		s.attrs[kv.Key] = kv.Value
	}
	t.in.spans = append(t.in.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recordedSpan) SpanContext() trace.SpanContext { return s.id }

func (s *recordedSpan) SetAttributes(kvs ...attribute.KeyValue) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	for _, kv := range kvs {
		s.attrs[kv.Key] = kv.Value
	}
}

func (s *recordedSpan) SetStatus(c codes.Code, _ string) { s.failed = c == codes.Error }
func (s *recordedSpan) End(...trace.SpanEndOption)       { s.ended = true }

type recordingMeter struct {
	metricnoop.Meter
	in *recorder
}

func (r *recorder) Meter(string, ...metric.MeterOption) metric.Meter { return recordingMeter{in: r} }

type (
	recordedInts struct {
		metricnoop.Int64Histogram
		record func(attribute.Set)
	}
	recordedFloats struct {
		metricnoop.Float64Histogram
		record func(attribute.Set)
	}
)

func (m recordingMeter) recording(name string) func(attribute.Set) {
	return func(set attribute.Set) {
		m.in.mu.Lock()
		defer m.in.mu.Unlock()
		if m.in.metrics == nil {
			m.in.metrics = map[string][]attribute.Set{}
		}
		m.in.metrics[name] = append(m.in.metrics[name], set)
	}
}

func (m recordingMeter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return recordedInts{record: m.recording(name)}, nil
}

func (m recordingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return recordedFloats{record: m.recording(name)}, nil
}

func (h recordedInts) Record(_ context.Context, _ int64, opts ...metric.RecordOption) {
	h.record(metric.NewRecordConfig(opts).Attributes())
}

func (h recordedFloats) Record(_ context.Context, _ float64, opts ...metric.RecordOption) {
	h.record(metric.NewRecordConfig(opts).Attributes())
}

// tree shows the spans below a parent, indented.
func (r *recorder) tree(parent trace.SpanID, indent string) (lines string) {
	for _, s := range r.spans {
		if s.parent.SpanID() == parent {
			lines += indent + s.name + "\n" + r.tree(s.id.SpanID(), indent+"  ")
		}
	}
	return lines
}

func (r *recorder) options(more ...otel.Option) pygent.Option {
	return otel.Record(append(more, otel.Tracer(r), otel.Meter(r))...)
}

func TestTelemetryOfARun(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	var inTool trace.SpanContext
	look := pygent.Tool{Name: "look", Run: func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		inTool = trace.SpanContextFromContext(ctx)
		return &pygent.ToolResult{Content: "secret"}, nil
	}}
	fails := pygent.Tool{Name: "fails", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return nil, fmt.Errorf("secret")
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(),
		pygenttest.TextAndCalls("secret", pygenttest.Call("look", nil), pygenttest.Call("fails", nil)).WithUsage(pygent.Usage{PromptTokens: 7, CompletionTokens: 2}), testkit.Stop)
	agent := newAgent(t, model, r.options(), pygent.WithTools(look, fails), pygent.WithModelName("m"),
		pygent.WithPersona(pygent.Persona{Name: "Ada"}), pygent.WithID("a1"))
	_, err := agent.RunUntilStop(t.Context(), "secret")
	require.NoError(t, err)
	require.Equal(t, `invoke_agent Ada
  chat m
  chat m
  execute_tool look
  execute_tool fails
  chat m
  execute_tool stop
`, r.tree(trace.SpanID{}, ""))
	require.Equal(t, r.spans[3].id.SpanID(), inTool.SpanID(), "spans of the tool's own nest")
	for _, s := range r.spans {
		require.True(t, s.ended, s.name)
		for key, value := range s.attrs {
			require.NotContains(t, value.String(), "secret", key)
		}
	}
	require.Equal(t, "503", r.spans[1].attrs["error.type"].AsString())
	require.True(t, r.spans[1].failed)
	require.EqualValues(t, 7, r.spans[2].attrs["gen_ai.usage.input_tokens"].AsInt64())
	require.Equal(t, "tool_error", r.spans[4].attrs["error.type"].AsString())
	require.Equal(t, "a1", r.spans[0].attrs["gen_ai.agent.id"].AsString())
	require.EqualValues(t, 7, r.spans[0].attrs["gen_ai.usage.input_tokens"].AsInt64())
	require.Len(t, r.metrics["gen_ai.client.token.usage"], 2)
	require.Len(t, r.metrics["gen_ai.client.operation.duration"], 3)
	require.Len(t, r.metrics["gen_ai.invoke_agent.duration"], 1)
	require.Len(t, r.metrics["gen_ai.execute_tool.duration"], 3)
	require.NotEmpty(t, r.metrics["gen_ai.client.operation.time_to_first_chunk"])
}

func TestTelemetryContentIsWrittenWhenAskedFor(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.TextAndCalls("I look.", testkit.CallBash("ls"))), r.options(otel.Content(true)))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.JSONEq(t, `[{"role":"assistant","finish_reason":"tool_call","parts":[
		{"type":"text","content":"I look."}, {"type":"tool_call","id":"call_1","name":"bash","arguments":{"cmd":"ls"}}]}]`,
		r.spans[1].attrs["gen_ai.output.messages"].AsString())
	require.Contains(t, r.spans[1].attrs["gen_ai.input.messages"].AsString(), `{"role":"user","parts":[{"type":"text","content":"go"}]}`)
	require.Equal(t, `{"cmd":"ls"}`, r.spans[2].attrs["gen_ai.tool.call.arguments"].AsString())
	require.Contains(t, r.spans[2].attrs["gen_ai.tool.call.result"].AsString(), "$ ls")
}

// The names of spans, attributes and metrics, from
// https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai:
// gen-ai-agent-spans.md, gen-ai-spans.md and gen-ai-metrics.md.
func TestTelemetryFollowsTheConventions(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("look", map[string]any{}).WithUsage(pygent.Usage{PromptTokens: 7, CompletionTokens: 2}), testkit.Stop)
	r := &recorder{}
	look := pygent.Tool{Name: "look", Description: "Looks", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return nil, nil
	}}
	model, err := openai.New(openai.Env(nil), openai.Key("sk-test"), openai.BaseURL(server.URL()))
	require.NoError(t, err)
	t.Cleanup(model.CloseIdleConnections)
	agent := newAgent(t, model, r.options(), pygent.WithTools(look))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for i, want := range []struct {
		span  string
		kind  trace.SpanKind
		attrs []attribute.Key
	}{
		{"invoke_agent Pygent", trace.SpanKindInternal, []attribute.Key{ // #invoke-agent-internal-span
			"gen_ai.operation.name", "gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		}},
		{"chat gpt-4.1-mini", trace.SpanKindClient, []attribute.Key{ // gen-ai-spans.md#inference
			"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.stream", "gen_ai.response.model", "gen_ai.response.id",
			"gen_ai.response.finish_reasons", "gen_ai.response.time_to_first_chunk", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
			"server.address", "server.port",
		}},
		{"execute_tool look", trace.SpanKindInternal, []attribute.Key{ // gen-ai-spans.md#execute-tool-span
			"gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type", "gen_ai.tool.description",
		}},
	} {
		span := r.spans[i]
		require.Equal(t, want.span, span.name)
		require.Equal(t, want.kind, span.kind)
		require.ElementsMatch(t, want.attrs, slices.Collect(maps.Keys(span.attrs)), want.span)
		require.Equal(t, strings.Fields(want.span)[0], span.attrs["gen_ai.operation.name"].AsString())
	}
	require.Equal(t, "openai", r.spans[1].attrs["gen_ai.provider.name"].AsString())
	require.Equal(t, "127.0.0.1", r.spans[1].attrs["server.address"].AsString())

	for name, want := range map[string][]attribute.Key{ // gen-ai-metrics.md
		"gen_ai.client.token.usage": {
			"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.token.type", "server.address", "server.port",
		},
		"gen_ai.client.operation.duration": {
			"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model", "server.address", "server.port",
		},
		"gen_ai.client.operation.time_to_first_chunk": {
			"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address", "server.port",
		},
		"gen_ai.invoke_agent.duration": {"gen_ai.agent.name"},
		"gen_ai.execute_tool.duration": {"gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name"},
	} {
		require.NotEmpty(t, r.metrics[name], name)
		var keys []attribute.Key
		for _, kv := range r.metrics[name][0].ToSlice() {
			keys = append(keys, kv.Key)
		}
		require.ElementsMatch(t, want, keys, name)
	}
}

func TestTelemetryOfACancelledRun(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	model := pygenttest.NewScriptedModel(pygenttest.Text("x").WithGate(nil))
	agent := newAgent(t, model, r.options())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = model.WaitRequests(ctx, 1)
		cancel()
	}()
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	for _, s := range r.spans {
		require.True(t, s.ended)
		require.Equal(t, "cancelled", s.attrs["error.type"].AsString())
	}
}

func TestTelemetryUsesTheGlobalProvidersByDefault(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(testkit.Stop), otel.Record())
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
}

func TestTelemetryOfTasksNests(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "sub"})
	model := pygenttest.NewScriptedModel(delegate, testkit.Stop, testkit.Stop).On("sub", testkit.Stop)
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	agent := newAgent(t, model, r.options(), pygent.WithRuntime(rt))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	_, err = agent.Tasks().Wait(t.Context(), tasks[0].ID)
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Contains(t, r.tree(trace.SpanID{}, ""), "  execute_tool delegate_task\n    invoke_agent Pygent\n      chat\n")
}

// panicking is a provider that panics at one of its steps.
type panicking struct {
	recorder
	at string
}

func (p *panicking) check(at string) {
	if p.at == at {
		panic("provider: " + at)
	}
}

type panickingTracer struct {
	recordingTracer
	of *panicking
}

type panickingSpan struct {
	trace.Span
	of *panicking
}

type panickingMeter struct {
	recordingMeter
	of *panicking
}

type panickingHistogram struct {
	recordedFloats
	of *panicking
}

func (p *panicking) Tracer(string, ...trace.TracerOption) trace.Tracer {
	p.check("tracer")
	return panickingTracer{recordingTracer{in: &p.recorder}, p}
}

func (p *panicking) Meter(string, ...metric.MeterOption) metric.Meter {
	p.check("meter")
	return panickingMeter{recordingMeter{in: &p.recorder}, p}
}

func (m panickingMeter) Float64Histogram(name string, opts ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.of.check("histogram")
	return panickingHistogram{recordedFloats{record: m.recording(name)}, m.of}, nil
}

func (h panickingHistogram) Record(ctx context.Context, n float64, opts ...metric.RecordOption) {
	h.of.check("record")
	h.recordedFloats.Record(ctx, n, opts...)
}

func (t panickingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.of.check("start")
	if t.of.at == "nothing" {
		return nil, nil
	}
	ctx, span := t.recordingTracer.Start(ctx, name, opts...)
	return ctx, panickingSpan{span, t.of}
}

func (s panickingSpan) SetAttributes(kvs ...attribute.KeyValue) {
	s.of.check("attributes")
	s.Span.SetAttributes(kvs...)
}

func (s panickingSpan) SetStatus(c codes.Code, text string) {
	s.of.check("status")
	s.Span.SetStatus(c, text)
}

func (s panickingSpan) End(opts ...trace.SpanEndOption) {
	s.of.check("end")
	s.Span.End(opts...)
}

func TestAProviderThatPanics(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"tracer", "meter", "histogram", "start", "attributes", "status", "end", "record", "nothing"} {
		t.Run(at, func(t *testing.T) {
			var log strings.Builder
			p := &panicking{at: at}
			fails := pygent.Tool{Name: "fails", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
				return nil, errors.New("no")
			}}
			agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Call("fails", nil), pygenttest.Text("done"))), pygent.WithRuntime(nowhere{}),
				pygent.WithTools(fails), pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				otel.Record(otel.Tracer(p), otel.Meter(p), otel.Content(true)))
			if at == "tracer" || at == "meter" || at == "histogram" {
				require.ErrorContains(t, err, "extension otel: the provider: panic: provider: "+at)
				return
			}
			require.NoError(t, err)
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.NoError(t, agent.Close())
			require.Equal(t, pygent.StatusReplied, result.Status)
			require.Equal(t, "done", result.Summary)
			told := 1
			if at == "nothing" {
				told = 0
			}
			require.Equal(t, told, strings.Count(log.String(), "provider panicked"))
		})
	}
}

func TestSpansTellWhatCachesReadAndWrote(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	usage := pygent.Usage{PromptTokens: 10, CachedTokens: 4, CacheWriteTokens: 3, CompletionTokens: 5, ReasoningTokens: 2}
	agent := newAgent(t, pygenttest.NewScriptedModel(testkit.Stop.WithUsage(usage)), otel.Record(otel.Tracer(r), otel.Meter(r)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for name, want := range map[attribute.Key]int64{
		"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5, "gen_ai.usage.cache_read.input_tokens": 4,
		"gen_ai.usage.cache_creation.input_tokens": 3, "gen_ai.usage.reasoning.output_tokens": 2,
	} {
		require.Equal(t, want, r.spans[0].attrs[name].AsInt64(), name)
		require.Equal(t, want, r.spans[1].attrs[name].AsInt64(), name)
	}
}

// nowhere runs nothing.
type nowhere struct{ pygent.Runtime }

func (nowhere) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{Command: cmd}, nil
}

func (nowhere) Cleanup() error { return nil }

func newAgent(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(append([]pygent.Option{
		pygent.WithModel(model),
		pygent.WithRuntime(nowhere{}),
		pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond}),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	return agent
}
