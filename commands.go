package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Command is a command of interactive sessions: "/name arguments".
type Command struct {
	Name    string // without the slash
	Summary string // one line for /help
	Help    string // what /help NAME adds; may be empty

	// Run carries the command out and writes what the user should see to out,
	// which makes control characters visible.
	Run func(ctx context.Context, a *Agent, args string, out io.Writer) error
}

// commands holds what RegisterCommand adds.
var commands struct {
	sync.RWMutex
	byName map[string]Command
}

// RegisterCommand adds a command to every interactive session of the process,
// replacing one of the same name. The built-in /help, /resume and /exit
// cannot be replaced.
func RegisterCommand(c Command) error {
	if !toolName.MatchString(c.Name) {
		return fmt.Errorf("command %q: a name has 1 to 64 letters, digits, _ or -", c.Name)
	}
	if c.Run == nil {
		return fmt.Errorf("command %s: Run is nil", c.Name)
	}
	if _, ok := builtinCommands()[c.Name]; ok {
		return fmt.Errorf("command %s: built in, and cannot be replaced", c.Name)
	}
	commands.Lock()
	defer commands.Unlock()
	if commands.byName == nil {
		commands.byName = map[string]Command{}
	}
	commands.byName[c.Name] = c
	return nil
}

// builtinCommands are the commands every session has.
var builtinCommands = sync.OnceValue(func() map[string]Command {
	return map[string]Command{
		"help":   {Name: "help", Summary: "list the commands, or tell more of one: /help NAME"},
		"resume": {Name: "resume", Summary: "go on with a run that was interrupted"},
		"exit":   {Name: "exit", Summary: "end the session", Run: func(context.Context, *Agent, string, io.Writer) error { return errLeave }},
	}
})

// allCommands returns the commands by name.
func allCommands() map[string]Command {
	all := maps.Clone(builtinCommands())
	commands.RLock()
	defer commands.RUnlock()
	maps.Copy(all, commands.byName)
	return all
}

// runCommand carries out a line that begins with a slash.
func runCommand(ctx context.Context, a *Agent, text string, out io.Writer) error {
	name, args := strings.TrimPrefix(text, "/"), ""
	if i := strings.IndexFunc(name, unicode.IsSpace); i >= 0 {
		name, args = name[:i], strings.TrimSpace(name[i:])
	}
	all := allCommands()
	c, ok := all[name]
	switch {
	case !ok:
		return fmt.Errorf("no command /%s; /help lists the commands", name)
	case name == "resume": // a session does it itself, unless it is misused
		return errors.New("/resume takes no arguments")
	case name == "help":
		return help(all, strings.TrimPrefix(args, "/"), out)
	}
	_, err := outlive(ctx, func() (struct{}, error) { return struct{}{}, c.Run(ctx, a, args, out) })
	a.logPanic("command /"+name, err)
	if err != nil && !errors.Is(err, errLeave) {
		return fmt.Errorf("/%s: %w", name, err)
	}
	return err
}

func help(all map[string]Command, name string, out io.Writer) error {
	if name == "" {
		for _, n := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(out, "/%-10s %s\n", n, all[n].Summary)
		}
		return nil
	}
	c, ok := all[name]
	if !ok {
		return fmt.Errorf("no command /%s; /help lists the commands", name)
	}
	fmt.Fprintf(out, "/%s: %s\n", c.Name, c.Summary)
	if c.Help != "" {
		fmt.Fprintln(out, c.Help)
	}
	return nil
}
