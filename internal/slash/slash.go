// Package slash holds the commands that a person types in a conversation: lines
// such as "/name arguments".
package slash

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Command is a command that acts on a value of type S, such as an agent.
type Command[S any] struct {
	Name    string // without the slash
	Summary string // one line
	Help    string // more detail; may be empty
	Run     func(ctx context.Context, on S, args string, out io.Writer) error
}

// Commands are built-in commands and added ones. Make them with [New]. They are
// safe for concurrent use.
type Commands[S any] struct {
	builtin map[string]Command[S]

	mu    sync.RWMutex // guards added
	added map[string]Command[S]
}

// New returns the given built-in commands, and a /help command that explains
// all of them, added ones too.
func New[S any](builtin ...Command[S]) *Commands[S] {
	s := &Commands[S]{builtin: map[string]Command[S]{}, added: map[string]Command[S]{}}
	help := Command[S]{
		Name:    "help",
		Summary: "list the commands, or tell more of one: /help NAME",
		Run:     func(_ context.Context, _ S, args string, out io.Writer) error { return s.help(args, out) },
	}
	for _, c := range append(builtin, help) {
		s.builtin[c.Name] = c
	}
	return s
}

// Add adds a command. It replaces an added command of the same name, but not a
// built-in one.
func (s *Commands[S]) Add(c Command[S]) error {
	if s.Builtin(c.Name) {
		return fmt.Errorf("command %s: built in, and cannot be replaced", c.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added[c.Name] = c
	return nil
}

// Builtin reports whether name is that of a built-in command.
func (s *Commands[S]) Builtin(name string) bool {
	_, ok := s.builtin[name]
	return ok
}

// Find returns the command that a line names, and its arguments.
func (s *Commands[S]) Find(line string) (c Command[S], args string, err error) {
	name := strings.TrimPrefix(line, "/")
	if i := strings.IndexFunc(name, unicode.IsSpace); i >= 0 {
		name, args = name[:i], strings.TrimSpace(name[i:])
	}
	c, err = s.named(name)
	return c, args, err
}

func (s *Commands[S]) named(name string) (Command[S], error) {
	c, ok := s.all()[name]
	if !ok {
		return c, fmt.Errorf("no command /%s; /help lists the commands", name)
	}
	return c, nil
}

func (s *Commands[S]) all() map[string]Command[S] {
	all := maps.Clone(s.builtin)
	s.mu.RLock()
	defer s.mu.RUnlock()
	maps.Copy(all, s.added)
	return all
}

// help lists the commands, or explains the named one.
func (s *Commands[S]) help(name string, out io.Writer) error {
	if name == "" {
		all := s.all()
		for _, n := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(out, "/%-10s %s\n", n, all[n].Summary)
		}
		return nil
	}
	c, err := s.named(strings.TrimPrefix(name, "/"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "/%s: %s\n", c.Name, c.Summary)
	if c.Help != "" {
		fmt.Fprintln(out, c.Help)
	}
	return nil
}
