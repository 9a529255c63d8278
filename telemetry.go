package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/telemetry"
)

// TelemetryOption adjusts [WithTelemetry].
type TelemetryOption func(*telemetryOptions)

type telemetryOptions struct{ telemetry.Config }

// TelemetryTracer sets where spans go. Default: OpenTelemetry's global provider.
func TelemetryTracer(p trace.TracerProvider) TelemetryOption {
	return func(o *telemetryOptions) { o.Tracers = p }
}

// TelemetryMeter sets where metrics go. Default: OpenTelemetry's global provider.
func TelemetryMeter(p metric.MeterProvider) TelemetryOption {
	return func(o *telemetryOptions) { o.Meters = p }
}

// TelemetryContent says whether spans hold what was said: those of model calls the
// messages that are new since the model's last answer, and the answer, and those
// of tools the arguments and the result. Default: false, since all this may be
// secret and is large. Images and files of more than 48 KiB are left out.
func TelemetryContent(on bool) TelemetryOption {
	return func(o *telemetryOptions) { o.Content = on }
}

// WithTelemetry has the agent, and the agents of its tasks, write spans and
// metrics by OpenTelemetry's semantic conventions for generative AI: a span
// invoke_agent for each run, below it chat for each call of the model, retries
// included, and execute_tool for each call of a tool, without the time of its
// approval; below a tool's span, those of the task that it delegates. The
// contexts of models, tools and tasks carry the spans. Metrics are
// gen_ai.client.token.usage, gen_ai.client.operation.duration and
// gen_ai.client.operation.time_to_first_chunk of model calls,
// gen_ai.invoke_agent.duration and gen_ai.execute_tool.duration.
//
// The attribute error.type is the HTTP status of a failed model call, or one of
// connection, timeout, cancelled, runtime_start and tool_error, the [Status] of a
// run that ended badly, or _OTHER.
//
// No exporter is set up: the program chooses one, with OpenTelemetry's SDK.
// Without this option nothing is written. A provider that panics loses what it
// was to write, and the log tells the first panic.
func WithTelemetry(opts ...TelemetryOption) Option {
	return option(func(o *options) {
		o.telemetry = &telemetryOptions{}
		apply(o.telemetry, opts)
	})
}

// newRecorder returns what writes spans, or nil without [WithTelemetry].
func newRecorder(o *telemetryOptions, log *slog.Logger) (*telemetry.Recorder, error) {
	if o == nil {
		return nil, nil
	}
	config := o.Config
	config.Panicked = func(value any, stack []byte) {
		log.Error("OpenTelemetry's provider panicked", "error", fmt.Sprint(value), "stack", string(stack))
	}
	r, err := telemetry.New(config)
	if err != nil {
		return nil, fmt.Errorf("option WithTelemetry: %w", err)
	}
	return r, nil
}

// traced is r.do in a span.
func (r *run) traced(ctx context.Context, msg string) (*Result, error) {
	a := r.agent
	if a.telemetry == nil {
		return r.do(ctx, msg)
	}
	ctx, span := a.telemetry.Run(ctx, a.id, a.Persona().Name, a.currentModel().asked())
	result, err := r.do(ctx, msg)
	u := result.Usage
	span.Used(answerOf(u))
	failure := ""
	switch {
	case err != nil:
		failure = failureOf(err)
	case result.Status == StatusTimeout, result.Status == StatusStuck, result.Status == StatusEmpty, result.Status == StatusTruncated:
		failure = string(result.Status)
	}
	span.End(failure)
	return result, err
}

// asked is the name of the model that is asked for, empty if that is not known.
func (m agentModel) asked() string {
	if m.name != "" {
		return m.name
	}
	named, ok := m.given.(interface{ DefaultModel() string })
	if !ok {
		return ""
	}
	name, _ := guard.Catch(func() (string, error) { return named.DefaultModel(), nil }) // who panics has no name
	return name
}

// provider is who answers the calls of a model, as the conventions name it.
func (m agentModel) provider() telemetry.Provider {
	if o, ok := m.given.(*OpenAIModel); ok {
		return telemetry.ProviderAt(o.client.BaseURL())
	}
	return telemetry.Provider{Name: "_OTHER"}
}

// answerOf is the usage as the conventions count it.
func answerOf(u Usage) telemetry.Answer {
	u = u.plausible()
	return telemetry.Answer{Input: u.PromptTokens, Output: u.CompletionTokens, Cached: u.CachedTokens, CacheWrite: u.CacheWriteTokens, Reasoning: u.ReasoningTokens}
}

// chatSpan begins the span of a call of a model.
func (r *run) chatSpan(ctx context.Context, model agentModel, asked string, messages []Message) (context.Context, *telemetry.Span) {
	if r.agent.telemetry == nil {
		return ctx, nil
	}
	ctx, span := r.agent.telemetry.Chat(ctx, model.provider(), asked)
	span.Content(telemetry.InputMessages, func() string { return telemetry.Inputs(newIn(messages)...) })
	return ctx, span
}

// newIn returns the JSON of the messages since the model's last answer.
func newIn(messages []Message) (encoded [][]byte) {
	from := len(messages)
	for from > 0 && messages[from-1].Role != RoleAssistant {
		from--
	}
	for _, m := range messages[from:] {
		if data, err := m.MarshalJSON(); err == nil {
			encoded = append(encoded, data)
		}
	}
	return encoded
}

// failureOf names the kind of an error for a metric, in one of few words.
func failureOf(err error) string {
	var api *APIError
	switch {
	case errors.Is(err, errYield), errors.Is(err, errTakenAway): // the run goes on elsewhere
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, ErrAgentClosed):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &api) && api.Status != 0:
		return strconv.Itoa(api.Status)
	case errors.As(err, &api):
		return "connection"
	case errors.Is(err, ErrRuntimeStart):
		return "runtime_start"
	}
	return "_OTHER"
}

// streamed returns emit, which also notes when the answer began.
func streamed(span *telemetry.Span, emit func(Delta)) func(Delta) {
	if span == nil {
		return emit
	}
	return func(d Delta) {
		span.Wrote()
		emit(d)
	}
}

// answered ends the span of a call of the model, and logs the call.
func (r *run) answered(ctx context.Context, span *telemetry.Span, model string, began time.Time, resp *ChatResponse, err error) {
	if span != nil {
		failure := ""
		if resp != nil && err == nil {
			answer := answerOf(resp.Usage)
			answer.Model, answer.ID = cut.Head(resp.Model, maxModelName), cut.Head(resp.ID, maxModelName)
			answer.Finish = cut.Head(string(resp.FinishReason), maxModelName)
			span.Answered(answer)
			span.Content(telemetry.OutputMessages, func() string { return outputOf(resp, answer.Finish) })
		} else {
			failure = failureOf(err)
		}
		span.End(failure)
	}
	if log := r.agent.log; log.Enabled(ctx, slog.LevelDebug) {
		log.LogAttrs(ctx, slog.LevelDebug, "model called", slog.String("agent", r.agent.id), slog.Int("step", r.result.Steps),
			slog.String("model", model), slog.Duration("took", time.Since(began)), slog.Any("error", err))
	}
}

// tracedTool calls a tool in a span, and logs the call.
func (r *run) tracedTool(ctx context.Context, tool Tool, call ToolCall, args json.RawMessage) (*ToolResult, error) {
	a, began := r.agent, time.Now()
	var span *telemetry.Span
	if a.telemetry != nil {
		ctx, span = a.telemetry.Tool(ctx, telemetry.ToolCall{Agent: a.Persona().Name, Tool: call.Name, About: tool.Description, ID: call.ID})
	}
	result, err := a.callTool(ctx, tool, call, args)
	if span != nil {
		span.Content(telemetry.Arguments, func() string { return string(args) })
		failure := ""
		switch {
		case err != nil && ctx.Err() != nil:
			failure = failureOf(ctx.Err())
		case err != nil, result.IsError:
			failure = "tool_error"
		default:
			span.Content(telemetry.CallResult, func() string { return result.Content })
		}
		span.End(failure)
	}
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "tool called", slog.String("agent", a.id), slog.Int("step", r.result.Steps),
			slog.String("tool", call.Name), slog.String("id", call.ID), slog.Duration("took", time.Since(began)))
	}
	return result, err
}

// outputOf is an answer as the conventions want it.
func outputOf(resp *ChatResponse, finish string) string {
	m := resp.Message
	m.Role = RoleAssistant // a model may leave it out
	data, err := m.MarshalJSON()
	if err != nil {
		return ""
	}
	return telemetry.Output(data, finish)
}
