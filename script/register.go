package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/screen"
)

// command registers a command: command(name, fn, help, usage, to_model).
func (l *loader) command(c call) error {
	var made pygent.Command
	var fn starlark.Callable
	var toModel bool
	if err := c.unpack("name", &made.Name, "fn", &fn, "help?", &made.Summary, "usage?", &made.Usage, "to_model?", &toModel); err != nil {
		return err
	}
	f, err := l.function(fn, 2, "ctx, args")
	if err != nil {
		return err
	}
	made.Name = strings.TrimPrefix(made.Name, "/")
	if made.Summary == "" {
		made.Summary, _, _ = strings.Cut(readDoc(f.Doc()).summary, "\n")
	}
	s := l.script
	if toModel {
		made.Message = func(ctx context.Context, a *pygent.Agent, args string) (pygent.Message, error) {
			text, err := s.runCommand(ctx, a, f, args)
			if err == nil && text == "" {
				err = errors.New("there is nothing to say to the model")
			}
			return chat.UserMessage(text), err
		}
	} else {
		made.Run = func(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
			text, err := s.runCommand(ctx, a, f, args)
			if err == nil && text != "" {
				_, err = io.WriteString(out, strings.TrimSuffix(text, "\n")+"\n")
			}
			return err
		}
	}
	made.Summary, made.Usage = oneLine(made.Summary), oneLine(made.Usage)
	if err := checkCommand(made, s.commands); err != nil {
		return err
	}
	s.commands = append(s.commands, made)
	return nil
}

// checkCommand refuses a command that no agent can have.
func checkCommand(c pygent.Command, others []pygent.Command) error {
	if c.Name == "" || strings.ContainsFunc(c.Name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) || len(c.Name) > 64 {
		return fmt.Errorf("command %q: a name has 1 to 64 letters, digits, _ or -", c.Name)
	}
	if slices.ContainsFunc(others, func(other pygent.Command) bool { return other.Name == c.Name }) {
		return fmt.Errorf("command %s: there is another one of that name", c.Name)
	}
	return nil
}

// runCommand calls the function of a command and returns the text that it gave.
func (s *Script) runCommand(ctx context.Context, a *pygent.Agent, fn *starlark.Function, args string) (string, error) {
	v, err := s.call(ctx, fn, starlark.Tuple{s.hostOf(ctx, a), starlark.String(args)}, nil)
	if err != nil {
		return "", s.short(err)
	}
	switch v := v.(type) {
	case starlark.String:
		return string(v), nil
	case starlark.NoneType:
		return "", nil
	}
	return "", fmt.Errorf("%s returned a %s; want a string, or None", fn.Name(), v.Type())
}

// persona registers a persona for tasks: persona(name, description).
func (l *loader) persona(c call) error {
	var p pygent.Persona
	if err := c.unpack("name", &p.Name, "description", &p.Description); err != nil {
		return err
	}
	if p.Name = oneLine(p.Name); p.Name == "" {
		return errors.New("the name is empty")
	}
	if slices.ContainsFunc(l.script.personas, func(other pygent.Persona) bool { return strings.EqualFold(other.Name, p.Name) }) {
		return fmt.Errorf("there is another persona %s", p.Name)
	}
	l.script.personas = append(l.script.personas, p)
	return nil
}

// maxLine bounds a text for people that has one line, in bytes.
const maxLine = 1 << 10

// oneLine returns a text in a line, with control characters visible.
func oneLine(text string) string {
	return screen.Visible(strings.Join(strings.Fields(cut.Head(text, maxLine)), " "))
}

// setting sets one setting by its key: setting("limits.max_steps", 50).
func (l *loader) setting(c call) error {
	var key string
	var value starlark.Value
	if err := c.unpack("key", &key, "value", &value); err != nil {
		return err
	}
	return l.set(c.line(), key, value)
}

// settings sets several: settings(model = "m", limits = {"max_steps": 50}).
func (l *loader) settings(c call) error {
	if len(c.args) > 0 {
		return errors.New("name each setting: settings(model = \"gpt-4.1\")")
	}
	for _, pair := range c.kwargs {
		if err := l.set(c.line(), string(pair[0].(starlark.String)), pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// set sets what a file would have under a key, which may name a table before a dot.
func (l *loader) set(line int, key string, value starlark.Value) error {
	v, err := toGo(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if v == nil {
		return fmt.Errorf("%s: None is no value of a setting", key)
	}
	table := l.script.settings
	parts := strings.Split(key, ".")
	for _, name := range parts[:len(parts)-1] {
		below, ok := table[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			table[name] = below
		}
		table = below
	}
	last := parts[len(parts)-1]
	mergeInto(table, last, v)
	l.noteLines(line, key, v)
	return nil
}

// mergeInto sets a value; of a table, that there is already, it sets what the new
// one has.
func mergeInto(table map[string]any, name string, v any) {
	old, isTable := table[name].(map[string]any)
	added, also := v.(map[string]any)
	if !isTable || !also {
		table[name] = v
		return
	}
	maps.Copy(old, added)
}

// noteLines records where a setting, and those below it, were set.
func (l *loader) noteLines(line int, key string, v any) {
	l.script.lines[key] = line
	if table, ok := v.(map[string]any); ok {
		for name := range table {
			l.script.lines[key+"."+name] = line
		}
	}
}

// systemPrompt sets the system prompt: a text, or a function that makes it of an
// info.
func (l *loader) systemPrompt(c call) error {
	var v starlark.Value
	if err := c.unpack("prompt", &v); err != nil {
		return err
	}
	s := l.script
	if err := s.forbid("set the system prompt"); err != nil {
		return err
	}
	if text, ok := starlark.AsString(v); ok {
		s.prompt = func(pygent.PromptInfo) string { return text }
		return nil
	}
	fn, ok := v.(starlark.Callable)
	if !ok {
		return fmt.Errorf("want a text or a function, got %s", v.Type())
	}
	f, err := l.function(fn, 1, "info")
	if err != nil {
		return err
	}
	s.prompt = func(info pygent.PromptInfo) string {
		text, err := s.promptOf(f, info)
		if err != nil {
			s.log.Error("the script's system prompt failed, and the default one is used", "error", err)
			return pygent.DefaultPrompt(info)
		}
		return text
	}
	s.promptFn = f
	return nil
}

// promptOf calls the function for the system prompt.
func (s *Script) promptOf(fn *starlark.Function, info pygent.PromptInfo) (string, error) {
	var tools []string
	for _, t := range info.Tools {
		tools = append(tools, t.Name)
	}
	arg := record(starlark.StringDict{
		"default":      starlark.String(pygent.DefaultPrompt(info)),
		"persona_name": starlark.String(info.Persona.Name),
		"persona":      starlark.String(info.Persona.Description),
		"instructions": starlark.String(info.Instructions),
		"tools":        stringList(tools),
	})
	v, err := s.call(context.Background(), fn, starlark.Tuple{arg}, nil)
	if err != nil {
		return "", err
	}
	text, ok := starlark.AsString(v)
	if !ok {
		return "", fmt.Errorf("%s returned a %s; want a string", fn.Name(), v.Type())
	}
	return text, nil
}

// tryPrompt calls the function for the system prompt once, so that its mistakes are
// known before an agent needs it.
func (s *Script) tryPrompt() error {
	if s.promptFn == nil {
		return nil
	}
	_, err := s.promptOf(s.promptFn, pygent.PromptInfo{Persona: pygent.DefaultPersona()})
	return err
}
