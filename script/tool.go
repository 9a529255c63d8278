package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/x/pygent"
)

// tool registers a tool: tool(fn, name, description, title, kind, read_only, approval).
func (l *loader) tool(c call) error {
	var fn starlark.Callable
	var name, description, title, kind string
	var readOnly bool
	var approval starlark.Value
	if err := c.unpack("fn", &fn, "name?", &name, "description?", &description, "title?", &title, "kind?", &kind, "read_only?", &readOnly, "approval?", &approval); err != nil {
		return err
	}
	f, err := l.function(fn, -1, "")
	if err != nil {
		return err
	}
	if name == "" && f.Name() == "lambda" {
		return errors.New("a lambda has no name: give name")
	}
	doc := readDoc(f.Doc())
	t := &scriptTool{script: l.script, fn: f, readOnly: readOnly && l.script.project}
	schema, err := t.parameters(doc)
	if err != nil {
		return err
	}
	name = cmp.Or(name, f.Name())
	made := pygent.Tool{
		Name: name, Description: cmp.Or(description, doc.summary), Title: l.script.title(name, oneLine(title)), Kind: pygent.ToolKind(cmp.Or(kind, string(pygent.ToolRun))),
		Parameters: schema, ReadOnly: readOnly, RunsCommands: !readOnly, Run: t.run,
	}
	if err := l.approval(&made, approval); err != nil {
		return err
	}
	if err := l.checkTool(made); err != nil {
		return err
	}
	l.script.tools = append(l.script.tools, made)
	return nil
}

// title is what people read of a tool. It says if nobody here has named the script.
func (s *Script) title(name, title string) string {
	if !s.project {
		return title
	}
	return cmp.Or(title, name) + " (of " + oneLine(filepath.Base(s.path)) + ", found here)"
}

// approval reads the argument of that name: None for as bash, True for always, and
// False for never.
func (l *loader) approval(t *pygent.Tool, v starlark.Value) error {
	switch v {
	case nil, starlark.None:
	case starlark.True:
		t.NeedsApproval = true
	case starlark.False:
		t.RunsCommands = false
		return l.script.forbid("have tools that run without approval")
	default:
		return fmt.Errorf("approval: want True, False or None, got %s", v.Type())
	}
	return nil
}

var kinds = []pygent.ToolKind{pygent.ToolRead, pygent.ToolEdit, pygent.ToolRun, pygent.ToolSearch, pygent.ToolOther}

// checkTool refuses tools that no agent can have, or that take another one's place.
func (l *loader) checkTool(t pygent.Tool) error {
	if t.Description == "" {
		return fmt.Errorf("tool %s: no description: give the function a doc string, which tells the model what it is for", t.Name)
	}
	if !slices.Contains(kinds, t.Kind) {
		return fmt.Errorf("tool %s: kind %q: want one of %v", t.Name, t.Kind, kinds)
	}
	if err := t.Check(); err != nil {
		return err
	}
	named := func(other pygent.Tool) bool { return other.Name == t.Name }
	switch {
	case isBuiltin(t.Name):
		return fmt.Errorf("tool %s: a built-in tool has this name", t.Name)
	case slices.ContainsFunc(l.script.tools, named):
		return fmt.Errorf("tool %s: there is another one of that name", t.Name)
	}
	return nil
}

// isBuiltin reports whether a built-in tool has a name.
func isBuiltin(name string) bool {
	var builtin pygent.Registry
	builtin.Reset()
	return slices.ContainsFunc(builtin.Tools(), func(t pygent.Tool) bool { return t.Name == name })
}

// scriptTool is a tool that is a function of a script.
type scriptTool struct {
	script   *Script
	fn       *starlark.Function
	fallback []starlark.Tuple // the defaults that a param gave
	readOnly bool             // it cannot run commands, nor write
}

// parameters makes the schema of the function's parameters, without the first, which
// is the context.
func (t *scriptTool) parameters(doc doc) (json.RawMessage, error) {
	if t.fn.HasVarargs() || t.fn.HasKwargs() {
		return nil, fmt.Errorf("%s: a tool cannot have *args or **kwargs: a model must know its parameters", t.fn.Name())
	}
	if t.fn.NumParams() == t.fn.NumKwonlyParams() {
		return nil, fmt.Errorf("%s: the first parameter of a tool is the context: def %s(ctx)", t.fn.Name(), t.fn.Name())
	}
	properties, required := map[string]any{}, []string{}
	for i := 1; i < t.fn.NumParams(); i++ {
		name, _ := t.fn.Param(i)
		p, err := paramFrom(t.fn.ParamDefault(i))
		if err != nil {
			return nil, fmt.Errorf("%s: parameter %s: %w", t.fn.Name(), name, err)
		}
		schema := maps.Clone(p.schema)
		if text := doc.args[name]; text != "" && schema["description"] == nil {
			schema["description"] = text
		}
		properties[name] = schema
		if p.fallback == nil {
			required = append(required, name)
		} else if t.fn.ParamDefault(i) == starlark.Value(p) {
			p.fallback.Freeze()
			t.fallback = append(t.fallback, starlark.Tuple{starlark.String(name), p.fallback})
		}
	}
	for name := range doc.args {
		if properties[name] == nil {
			return nil, fmt.Errorf("%s: the doc string describes the parameter %s, which there is not", t.fn.Name(), name)
		}
	}
	return json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

// run calls the function.
func (t *scriptTool) run(ctx context.Context, rt pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
	given, err := arguments(string(args))
	if err != nil {
		return nil, err
	}
	kwargs := given.Items()
	for _, one := range t.fallback {
		if _, found, _ := given.Get(one[0]); !found {
			kwargs = append(kwargs, one)
		}
	}
	info, _ := pygent.CallFrom(ctx)
	host := &host{ctx: ctx, script: t.script, rt: rt, check: func(cmd string) error { return pygent.CheckCommand(ctx, cmd) }, agent: info.Agent, task: info.Task, inTool: true, readOnly: t.readOnly}
	v, err := t.script.call(ctx, t.fn, starlark.Tuple{host}, kwargs)
	if err != nil {
		return nil, t.script.short(err)
	}
	return toolResult(v)
}

// arguments reads the arguments of a call.
func arguments(text string) (*starlark.Dict, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var given map[string]any
	if err := decoder.Decode(&given); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	v, err := fromGo(given)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	dict, ok := v.(*starlark.Dict)
	if !ok {
		return nil, errors.New("arguments: no object")
	}
	return dict, nil
}

// toolResult is what a model gets for a value: a string as it is, None as nothing, and
// any other as JSON.
func toolResult(v starlark.Value) (*pygent.ToolResult, error) {
	switch v := v.(type) {
	case starlark.String:
		return &pygent.ToolResult{Content: string(v)}, nil
	case starlark.NoneType:
		return &pygent.ToolResult{Content: "done"}, nil
	}
	value, err := toGo(v)
	if err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	return &pygent.ToolResult{Content: string(text), Value: text}, nil
}

// call calls a function of the script in a thread of its own.
func (s *Script) call(ctx context.Context, fn *starlark.Function, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	thread := s.newThread(fn.Name())
	return s.within(ctx, thread, func() (starlark.Value, error) { return starlark.Call(thread, fn, args, kwargs) })
}

// short logs an error with its backtrace, and returns it without, as a model reads it.
func (s *Script) short(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	s.log.Warn("script", "error", e.Error())
	return errors.New(e.Short())
}

// doc is what a doc string says.
type doc struct {
	summary string            // before "Args:"
	args    map[string]string // of each parameter
}

// readDoc reads a doc string in the form that Bazel's tools expect: the description,
// and under "Args:" a line "name: text" for each parameter, which may go on in lines
// that are indented further.
func readDoc(text string) doc {
	d := doc{args: map[string]string{}}
	var summary []string
	section, arg, indent := "", "", -1
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimLeft(line, " \t")
		depth := len(line) - len(trimmed)
		if trimmed == "Args:" || trimmed == "Returns:" {
			section, arg, indent = trimmed, "", -1
			continue
		}
		switch {
		case section == "":
			summary = append(summary, trimmed)
		case section != "Args:" || trimmed == "":
		case indent < 0 || depth <= indent:
			name, text, ok := strings.Cut(trimmed, ":")
			if !ok {
				section = "after"
				continue
			}
			indent, arg = depth, strings.TrimSpace(name)
			d.args[arg] = strings.TrimSpace(text)
		default:
			d.args[arg] = strings.TrimSpace(d.args[arg] + " " + trimmed)
		}
	}
	d.summary = strings.TrimSpace(strings.Join(summary, "\n"))
	return d
}
