package pygent

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/x/pygent/internal/cut"
)

// logStart says with what the agent begins, and what was not as asked for.
func (a *Agent) logStart() {
	for _, warning := range a.opts.warnings {
		a.log.Warn("configuration", "what", warning)
	}
	a.log.Info("agent made", "agent", a.id, "persona", a.persona.Name, "model", modelInLog(a.model, a.modelName),
		"docker", a.runtime.UseDocker(), "messages", a.history.Len())
}

// modelInLog names a model. A model that is not ours is named by its type: its
// fields may hold a key.
func modelInLog(m Model, name string) string {
	kind := fmt.Sprintf("%T", m)
	if openai, ok := m.(*OpenAIModel); ok {
		kind = openai.String()
	}
	if name == "" {
		return kind
	}
	return name + " of " + kind
}

// logEvent logs an event unless the log has it from elsewhere: the loop logs
// its retries, the runtime what it tells, and the agent of a task what the task
// does. What streams in pieces is left out.
func (a *Agent) logEvent(e Event) {
	ctx := context.Background()
	if e.Task != "" && e.Type != EventTask || !a.log.Enabled(ctx, slog.LevelError) {
		return
	}
	level, text, attrs := logEntry(e)
	if text != "" {
		a.log.LogAttrs(ctx, level, text, append(attrs, slog.String("agent", a.id))...)
	}
}

// logEntry is what the log says of an event, which is nothing of some.
func logEntry(e Event) (level slog.Level, text string, attrs []slog.Attr) {
	switch e.Type {
	case EventStep:
		return slog.LevelDebug, "step", []slog.Attr{slog.Int("step", e.Step)}
	case EventMessage:
		return slog.LevelDebug, "answer", []slog.Attr{slog.Int("calls", len(e.Message.ToolCalls)), tokensInLog(e.Usage)}
	case EventToolCall:
		return slog.LevelDebug, "tool call", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("call", cut.Head(describeCall(*e.Call), loggedCall))}
	case EventToolDone:
		return slog.LevelDebug, "tool done", []slog.Attr{slog.String("tool", e.Call.Name), slog.Bool("failed", e.Output.IsError), slog.Int("bytes", len(e.Output.Content))}
	case EventToolSkipped:
		return slog.LevelDebug, "tool call not run", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("why", cut.Head(e.Output.Content, loggedCall))}
	case EventNotice:
		return slog.LevelInfo, e.Text, nil
	case EventWarning:
		return slog.LevelWarn, e.Text, nil
	case EventTask:
		return slog.LevelInfo, e.Text, []slog.Attr{slog.String("task", e.Task)}
	case EventRunEnd:
		return runEndInLog(e.Result)
	}
	return 0, "", nil
}

// loggedCall is how much of a tool call a log shows, in bytes.
const loggedCall = 200

func runEndInLog(r *Result) (slog.Level, string, []slog.Attr) {
	level := slog.LevelInfo
	if r.Status == StatusFailed || r.Status == StatusContextFull {
		level = slog.LevelError
	}
	return level, "run ended", []slog.Attr{
		slog.String("status", string(r.Status)), slog.String("reason", r.Reason), slog.Int("steps", r.Steps),
		slog.Int("calls", r.ToolCalls), tokensInLog(&r.Usage), slog.Duration("elapsed", r.Elapsed),
	}
}

func tokensInLog(u *Usage) slog.Attr {
	if u == nil {
		return slog.Attr{}
	}
	return slog.Int64("tokens", u.Total())
}
