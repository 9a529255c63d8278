package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/x/pygent"
)

// The events that handlers are for.
const (
	beforeTool = "before_tool"
	afterTool  = "after_tool"
	onStart    = "on_start"
	onEnd      = "on_end"
)

func (l *loader) beforeTool(c call) error { return l.handler(c, 2, "ctx, call", true) }
func (l *loader) afterTool(c call) error  { return l.handler(c, 3, "ctx, call, result", true) }
func (l *loader) onStart(c call) error    { return l.handler(c, 2, "ctx, run", false) }
func (l *loader) onEnd(c call) error      { return l.handler(c, 2, "ctx, run", false) }

// handler registers a function that takes n arguments.
func (l *loader) handler(c call, n int, takes string, ofTools bool) error {
	var fn starlark.Callable
	var tools starlark.Value
	pairs := []any{"fn", &fn}
	if ofTools {
		pairs = append(pairs, "tools?", &tools)
	}
	if err := c.unpack(pairs...); err != nil {
		return err
	}
	f, err := l.function(fn, n, takes)
	if err != nil {
		return err
	}
	h := handler{event: c.name, fn: f}
	if h.tools, err = names(tools); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	l.script.handlers = append(l.script.handlers, h)
	return nil
}

func (s *Script) has(event string) bool {
	return slices.ContainsFunc(s.handlers, func(h handler) bool { return h.event == event })
}

// of returns the handlers for an event, of a tool if name is not empty.
func (s *Script) of(event, name string) []handler {
	var all []handler
	for _, h := range s.handlers {
		if h.event == event && (h.tools == nil || name == "" || slices.Contains(h.tools, name)) {
			all = append(all, h)
		}
	}
	return all
}

// answer is what a handler may return.
type answer struct {
	kind   string // "deny", "change" or "note"
	reason string // of a denial
	change *starlark.Dict
	note   string
}

// String implements [starlark.Value].
func (a *answer) String() string { return a.kind + "(…)" }

// Type implements [starlark.Value].
func (a *answer) Type() string { return a.kind }

// Freeze implements [starlark.Value].
func (a *answer) Freeze() {
	if a.change != nil {
		a.change.Freeze()
	}
}

// Truth implements [starlark.Value].
func (a *answer) Truth() starlark.Bool { return starlark.True }

// Hash implements [starlark.Value].
func (a *answer) Hash() (uint32, error) { return 0, errors.New("unhashable: " + a.kind) }

func newDeny(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	a := &answer{kind: b.Name()}
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "reason", &a.reason)
	if err == nil && strings.TrimSpace(a.reason) == "" {
		err = errors.New("say why: the model reads it")
	}
	return a, err
}

func newNote(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	a := &answer{kind: b.Name()}
	return a, starlark.UnpackArgs(b.Name(), args, kwargs, "text", &a.note)
}

// newChange is change(args, note): the arguments that are to be others.
func newChange(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	a := &answer{kind: b.Name()}
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "args", &a.change, "note?", &a.note)
	return a, err
}

// ask calls a handler and returns its answer, nil for None. Only the kinds are
// answers.
func (s *Script) ask(ctx context.Context, h handler, args starlark.Tuple, kinds ...string) (*answer, error) {
	v, err := s.call(ctx, h.fn, args, nil)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", h.event, h.fn.Name(), s.short(err))
	}
	if v == starlark.None {
		return &answer{}, nil
	}
	if a, ok := v.(*answer); ok && slices.Contains(kinds, a.kind) {
		return a, nil
	}
	want := "nothing"
	if len(kinds) > 0 {
		want = "None, " + strings.Join(kinds, "(…) or ") + "(…)"
	}
	return nil, fmt.Errorf("%s %s: it returned a %s; want %s", h.event, h.fn.Name(), v.Type(), want)
}

// hooks are the handlers that an agent calls itself.
func (s *Script) hooks() pygent.Hooks {
	var h pygent.Hooks
	if s.has(beforeTool) {
		h.BeforeCall = s.beforeCall
	}
	if s.has(onStart) {
		h.RunStart = s.runStart
	}
	if s.has(onEnd) {
		h.RunEnd = s.runEnd
	}
	return h
}

// hostOf is the context of a handler of an agent.
func (s *Script) hostOf(ctx context.Context, a *pygent.Agent) *host {
	info, _ := pygent.CallFrom(ctx)
	return &host{ctx: ctx, script: s, rt: a.Runtime(), check: a.CheckCommand, agent: a.ID(), task: info.Task}
}

// beforeCall asks the handlers about a call. The first that denies it decides, and
// one that fails denies it.
func (s *Script) beforeCall(ctx context.Context, a *pygent.Agent, call pygent.ToolCall) (verdict pygent.CallVerdict, err error) {
	host := s.hostOf(ctx, a)
	for _, h := range s.of(beforeTool, call.Name) {
		args, err := arguments(call.Arguments)
		if err != nil {
			return verdict, err
		}
		said, err := s.ask(ctx, h, starlark.Tuple{host, describe(call, args)}, "deny", "change", "note")
		if err != nil {
			return verdict, err
		}
		if said.reason != "" {
			return pygent.CallVerdict{Deny: said.reason}, nil
		}
		if said.change != nil {
			if err := s.mayChange(host.rt, call.Name); err != nil {
				return verdict, fmt.Errorf("%s %s: %w", h.event, h.fn.Name(), err)
			}
			if call.Arguments, err = changed(call.Arguments, said.change); err != nil {
				return verdict, fmt.Errorf("%s %s: change: %w", h.event, h.fn.Name(), err)
			}
			verdict.Arguments = json.RawMessage(call.Arguments)
		}
		verdict.Note = joined(verdict.Note, said.note)
	}
	return verdict, nil
}

// mayChange refuses changes of a project's script where they would reach this
// machine, or another one: those of tools that a program has added.
func (s *Script) mayChange(rt pygent.Runtime, tool string) error {
	own := slices.ContainsFunc(s.tools, func(t pygent.Tool) bool { return t.Name == tool })
	if !own && !isBuiltin(tool) {
		return s.forbid("change calls of " + tool + ", which does not work in the container")
	}
	return s.unattended(rt, "change calls")
}

// describe is a call as a script sees it.
func describe(call pygent.ToolCall, args *starlark.Dict) starlark.Value {
	return record(starlark.StringDict{"name": starlark.String(call.Name), "id": starlark.String(call.ID), "args": args})
}

// changed returns arguments with some of them replaced; None leaves one out.
func changed(arguments string, change *starlark.Dict) (string, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return "", err
	}
	others, err := toGo(change)
	if err != nil {
		return "", err
	}
	for name, value := range others.(map[string]any) {
		if value == nil {
			delete(args, name)
			continue
		}
		if args[name], err = json.Marshal(value); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(args)
	return string(text), err
}

func joined(notes, note string) string {
	if notes == "" || note == "" {
		return cmp.Or(notes, note)
	}
	return notes + "\n" + note
}

// afterTools is the middleware that tells the handlers of the results of calls. They
// add notes. One that fails is a note as well.
func (s *Script) afterTools(next pygent.ToolHandler) pygent.ToolHandler {
	return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
		result, err := next(ctx, rt, call)
		handlers := s.of(afterTool, call.Name)
		if len(handlers) == 0 || ctx.Err() != nil {
			return result, err
		}
		notes := s.notesOn(ctx, rt, call, handlers, result, err)
		switch {
		case notes == "":
			return result, err
		case err != nil:
			return result, fmt.Errorf("%w\n%s", err, notes)
		case result == nil:
			result = &pygent.ToolResult{}
		}
		result.Content = joined(result.Content, notes)
		return result, nil
	}
}

// notesOn returns what the handlers say of a result.
func (s *Script) notesOn(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, handlers []handler, result *pygent.ToolResult, failure error) (notes string) {
	info, _ := pygent.CallFrom(ctx)
	host := &host{ctx: ctx, script: s, rt: rt, check: func(cmd string) error { return pygent.CheckCommand(ctx, cmd) }, agent: info.Agent, task: info.Task}
	for _, h := range handlers {
		args, err := arguments(call.Arguments)
		var said *answer
		if err == nil {
			said, err = s.ask(ctx, h, starlark.Tuple{host, describe(call, args), outcome(result, failure)}, "note")
		}
		if err != nil {
			notes = joined(notes, "[the call was made, but a script failed after it: "+err.Error()+"]")
			continue
		}
		notes = joined(notes, said.note)
	}
	return notes
}

// outcome is a result as a script sees it.
func outcome(result *pygent.ToolResult, err error) starlark.Value {
	text, failed := "", err != nil
	exit := starlark.Value(starlark.None)
	var paths []string
	if err != nil {
		text = err.Error()
	}
	if result != nil {
		text, failed = cmp.Or(text, result.Content), failed || result.IsError || result.Outcome == pygent.OutcomeFailed
		if result.Bash != nil {
			exit = starlark.MakeInt(result.Bash.ExitCode)
		}
		for _, change := range result.Changes {
			paths = append(paths, change.Path)
		}
	}
	return record(starlark.StringDict{"text": starlark.String(text), "error": starlark.Bool(failed), "exit_code": exit, "changed": stringList(paths)})
}

// runStart calls the handlers at the start of a run.
func (s *Script) runStart(ctx context.Context, a *pygent.Agent, message string) (notes string, err error) {
	host := s.hostOf(ctx, a)
	run := record(starlark.StringDict{"message": starlark.String(message), "agent": starlark.String(host.agent), "task": orNone(host.task)})
	for _, h := range s.of(onStart, "") {
		said, err := s.ask(ctx, h, starlark.Tuple{host, run}, "deny", "note")
		if err != nil {
			return "", err
		}
		if said.reason != "" {
			return "", fmt.Errorf("%s %s: denied: %s", h.event, h.fn.Name(), said.reason)
		}
		notes = joined(notes, said.note)
	}
	return notes, nil
}

// runEnd calls the handlers at the end of a run: all of them, also if one fails.
func (s *Script) runEnd(ctx context.Context, a *pygent.Agent, result *pygent.Result) error {
	host := s.hostOf(ctx, a)
	run := record(starlark.StringDict{
		"status": starlark.String(result.Status), "reason": starlark.String(result.Reason), "summary": starlark.String(result.Summary),
		"steps": starlark.MakeInt(result.Steps), "tool_calls": starlark.MakeInt(result.ToolCalls),
		"agent": starlark.String(host.agent), "task": orNone(host.task),
	})
	var errs []error
	for _, h := range s.of(onEnd, "") {
		_, err := s.ask(ctx, h, starlark.Tuple{host, run})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
