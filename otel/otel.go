// Package otel has agents of pygent write spans and metrics by OpenTelemetry's semantic
// conventions for generative AI:
//
//	agent, err := pygent.New(otel.Record(otel.Tracer(provider)))
//
// It uses OpenTelemetry's API alone. No exporter is set up: the program chooses one, with
// OpenTelemetry's SDK.
package otel

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/cut"
)

// Option adjusts [Record].
type Option func(*config)

// config says where spans and metrics go. A nil provider is the global one.
type config struct {
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	content bool // also write what was said
}

// Tracer sets where spans go. Default: OpenTelemetry's global provider.
func Tracer(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// Meter sets where metrics go. Default: OpenTelemetry's global provider.
func Meter(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// Content says whether spans hold what was said: those of model calls the messages that
// are new since the model's last answer, and the answer, and those of tools the arguments
// and the result. Default: false, since all this may be secret and is large. Images and
// files of more than 48 KiB are left out.
func Content(on bool) Option { return func(c *config) { c.content = on } }

// Record returns the option by which an agent, and the agents of its tasks, write spans
// and metrics: a span invoke_agent for each run, below it chat for each call of the model,
// retries included, and execute_tool for each call of a tool, without the time of its
// approval; below a tool's span, those of the task that it delegates. The contexts of
// models, tools and tasks carry the spans. Metrics are gen_ai.client.token.usage,
// gen_ai.client.operation.duration and gen_ai.client.operation.time_to_first_chunk of
// model calls, gen_ai.invoke_agent.duration and gen_ai.execute_tool.duration.
//
// The attribute error.type is the HTTP status of a failed model call, or one of connection,
// timeout, cancelled, runtime_start and tool_error, the [pygent.Status] of a run that ended
// badly, or _OTHER.
//
// It is the extension named otel. A provider that panics loses what it was to write, and
// the log tells the first panic; one that panics when it makes the tracer or the meter is
// an error of [pygent.New].
func Record(opts ...Option) pygent.Option {
	var c config
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	return pygent.WithExtension(extension{c})
}

type extension struct{ config }

// Name implements [pygent.Extension].
func (extension) Name() string { return "otel" }

// Open implements [pygent.Extension].
func (e extension) Open(_ context.Context, h *pygent.Host) (pygent.Lifecycle, error) {
	r, err := newRecorder(e.config, h.Logger)
	if err != nil {
		return pygent.Lifecycle{}, err
	}
	t := tracing{r, h}
	return pygent.Lifecycle{TraceRun: t.run, TraceModel: t.model, TraceTool: t.tool, Inherit: true}, nil
}

// tracing makes spans of what one agent does.
type tracing struct {
	recorder *recorder
	host     *pygent.Host
}

func (t tracing) run(ctx context.Context, r *pygent.RunTrace) (context.Context, func()) {
	ctx, span := t.recorder.run(ctx, t.host.Agent.ID(), r.Persona, r.Model)
	return ctx, func() {
		span.used(answerOf(r.Result.Usage))
		failure := ""
		switch {
		case r.Err != nil:
			failure = failureOf(r.Err)
		case r.Result.Status == pygent.StatusTimeout, r.Result.Status == pygent.StatusStuck,
			r.Result.Status == pygent.StatusEmpty, r.Result.Status == pygent.StatusTruncated:
			failure = string(r.Result.Status)
		}
		span.end(failure)
	}
}

func (t tracing) model(ctx context.Context, m *pygent.ModelTrace) (context.Context, func()) {
	by := provider{name: "_OTHER"}
	if m.BaseURL != "" {
		by = providerAt(m.BaseURL)
	}
	ctx, span := t.recorder.model(ctx, by, m.Name)
	span.writeContent(inputMessages, func() string { return inputs(newIn(m.Messages)...) })
	return ctx, func() {
		if m.FirstDelta > 0 {
			span.streamed(m.FirstDelta)
		}
		if m.Response == nil {
			span.end(failureOf(m.Err))
			return
		}
		a := answerOf(m.Response.Usage)
		a.model, a.id, a.finish = clipped(m.Response.Model), clipped(m.Response.ID), clipped(string(m.Response.FinishReason))
		span.answered(a)
		span.writeContent(outputMessages, func() string { return outputOf(m.Response, a.finish) })
		span.end("")
	}
}

func (t tracing) tool(ctx context.Context, c *pygent.ToolTrace) (context.Context, func()) {
	ctx, span := t.recorder.tool(ctx, toolCall{agent: c.Persona, tool: c.Call.Name, about: c.Description, id: c.Call.ID})
	return ctx, func() {
		span.writeContent(arguments, func() string { return c.Call.Arguments })
		failure := ""
		switch {
		case c.Err != nil && ctx.Err() != nil:
			failure = failureOf(ctx.Err())
		case c.Err != nil, c.Result.IsError:
			failure = "tool_error"
		default:
			span.writeContent(callResult, func() string { return c.Result.Content })
		}
		span.end(failure)
	}
}

// clipped bounds a text of a server.
func clipped(text string) string { return cut.Head(text, 256) }

// answerOf is the usage as the conventions count it, without counts that cannot be true.
func answerOf(u pygent.Usage) answer {
	plausible := func(n int64) int64 {
		if n < 0 || n >= 1e12 {
			return 0
		}
		return n
	}
	return answer{
		input: plausible(u.PromptTokens), output: plausible(u.CompletionTokens), cached: plausible(u.CachedTokens),
		cacheWrite: plausible(u.CacheWriteTokens), reasoning: plausible(u.ReasoningTokens),
	}
}

// newIn returns the JSON of the messages since the model's last answer.
func newIn(messages []pygent.Message) (encoded [][]byte) {
	from := len(messages)
	for from > 0 && messages[from-1].Role != chat.RoleAssistant {
		from--
	}
	for _, m := range messages[from:] {
		if data, err := m.MarshalJSON(); err == nil {
			encoded = append(encoded, data)
		}
	}
	return encoded
}

// outputOf is an answer as the conventions want it.
func outputOf(resp *pygent.ChatResponse, finish string) string {
	m := resp.Message
	m.Role = chat.RoleAssistant // a model may leave it out
	data, err := m.MarshalJSON()
	if err != nil {
		return ""
	}
	return output(data, finish)
}

// failureOf names the kind of an error for a metric, in one of few words.
func failureOf(err error) string {
	var api *pygent.APIError
	switch {
	case err == nil: // the run goes on elsewhere
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, pygent.ErrAgentClosed):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &api) && api.Status != 0:
		return strconv.Itoa(api.Status)
	case errors.As(err, &api):
		return "connection"
	case errors.Is(err, pygent.ErrRuntimeStart):
		return "runtime_start"
	}
	return "_OTHER"
}
