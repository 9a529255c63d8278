// Package script sets an agent up by a start-up script in Starlark, the language of
// Bazel's build files: a small, deterministic Python that reaches nothing which it
// is not given. The command pygent runs config.star of the working directory.
//
//	def count_lines(ctx, path, pattern = param.string("what a line must contain", default = "")):
//	    """Counts the lines of a file.
//
//	    Args:
//	      path: the file
//	    """
//	    lines = ctx.read(path).splitlines()
//	    return len([l for l in lines if pattern in l])
//
//	tool(count_lines, read_only = True)
//
//	def no_force(ctx, call):
//	    if "--force" in call.args["cmd"]:
//	        return deny("this project forbids --force")
//
//	before_tool(no_force, tools = ["bash"])
//	persona("Reviewer", "reviews changes, strictly but kindly")
//	settings(limits = {"max_steps": 50})
//
// A program runs one by [Load], and gives an agent what it registered:
//
//	s, err := script.Load(ctx, "team.star")
//	…
//	cfg, err := pygent.ConfigSources{Tables: []pygent.ConfigTable{s.Settings()}}.Load()
//	…
//	agent, err := pygent.New(append(cfg.Options(), s.Options()...)...)
//
// docs/guides/script.md describes the language: what there is to call, and what it gets.
//
// # What a script can do
//
// A script itself has no files, no network, no environment, no clock and no random
// numbers. It can load other files of its directory. Its functions work where the
// commands of the agent run, through the context that they get first: ctx.bash,
// ctx.read and ctx.write. Bans of the agent hold for these commands, and calls of
// the script's tools need approval wherever those of bash do.
//
// A script that a stranger may have written ([Project]) has the rights of a
// project's file: see [pygent.ConfigSources]. It may register tools, commands and
// personas, deny calls, and change them or run commands where these are isolated
// from this machine. It cannot allow anything, nor set the system prompt.
//
// Loading and every call have [Limits].
package script

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.starlark.net/starlark"

	"github.com/x/pygent"
)

// Script is a script that has run, and what it registered. It is safe for
// concurrent use: its values are frozen, and each call of one of its functions has
// a thread of its own.
type Script struct {
	path string
	options
	tools    []pygent.Tool
	commands []pygent.Command
	personas []pygent.Persona
	handlers []handler
	prompt   pygent.PromptBuilder
	promptFn *starlark.Function // nil if the prompt is a text, or is not set
	settings map[string]any
	lines    map[string]int
	files    []string
}

// Limits bound the loading of a script, and each call of one of its functions. For
// a zero field the default applies.
type Limits struct {
	// Steps are those of the interpreter, about one for an operation; default
	// 1,000,000.
	Steps uint64
	// Time is what the script takes itself, without the commands and files that it
	// waits for; default 5 seconds.
	Time time.Duration
	// Memory bounds the bytes of all values that are made, garbage too; default 256
	// MiB. Small values are bounded by Steps: a million of them take less than that.
	Memory int64
}

func (l Limits) orDefault() Limits {
	return Limits{cmp.Or(l.Steps, 1_000_000), cmp.Or(l.Time, 5*time.Second), cmp.Or(l.Memory, 256<<20)}
}

// Option configures [Load].
type Option func(*options)

type options struct {
	project bool
	limits  Limits
	log     *slog.Logger
	print   func(text string)
}

// Project gives the script the rights of a project's file. It is for files that
// the user has not named, but that were found.
func Project() Option { return func(o *options) { o.project = true } }

// WithLimits sets the limits.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

// WithLogger sets who gets what the script prints, and what goes wrong in its
// functions. Default: nobody.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithPrint sets a function that gets what the script prints, instead of the
// logger. It may be called by many goroutines.
func WithPrint(f func(text string)) Option { return func(o *options) { o.print = f } }

// Load reads and runs a script. What is wrong with it is an [*Error]. Nothing of it
// goes on after Load.
func Load(ctx context.Context, path string, opts ...Option) (*Script, error) {
	s := &Script{path: path, settings: map[string]any{}, lines: map[string]int{}}
	for _, opt := range opts {
		if opt != nil {
			opt(&s.options)
		}
	}
	s.limits = s.limits.orDefault()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Path is the path of the script, as it was given.
func (s *Script) Path() string { return s.path }

// IsProject reports whether the script has the rights of a project's file.
func (s *Script) IsProject() bool { return s.project }

// Files are the files that were read: the script, and those that it loads.
func (s *Script) Files() []string { return s.files }

// Tools are the tools of the script.
func (s *Script) Tools() []pygent.Tool { return s.tools }

// Commands are the commands of the script.
func (s *Script) Commands() []pygent.Command { return s.commands }

// Personas are the personas for tasks. [Script.Options] does not set them, because
// others may add theirs: see [pygent.TaskPersonas].
func (s *Script) Personas() []pygent.Persona { return s.personas }

// SetsPrompt reports whether the script sets the system prompt.
func (s *Script) SetsPrompt() bool { return s.prompt != nil }

// Settings are the settings of the script, for [pygent.ConfigSources].
func (s *Script) Settings() pygent.ConfigTable {
	return pygent.ConfigTable{Path: s.path, Flag: "--script", Project: s.project, Values: s.settings, Lines: s.lines}
}

// Options give an agent the tools, commands, handlers and the system prompt of the
// script; not its settings, and not its personas.
func (s *Script) Options() []pygent.Option {
	opts := []pygent.Option{pygent.WithTools(s.tools...), pygent.WithCommands(s.commands...)}
	if s.prompt != nil {
		opts = append(opts, pygent.WithPrompt(s.prompt))
	}
	if len(s.handlers) > 0 {
		opts = append(opts, pygent.WithHooks(s.hooks()))
	}
	if s.has(afterTool) {
		opts = append(opts, pygent.WithToolMiddleware(s.afterTools))
	}
	return opts
}

// Handler is a function that the script registered to be called for an event.
type Handler struct {
	Event string   // "before_tool", "after_tool", "on_start" or "on_end"
	Name  string   // of the function
	Line  int      // where it is
	Tools []string // whose calls it is for; nil for all
}

// Handlers are the handlers of the script, in the order in which they are called.
func (s *Script) Handlers() []Handler {
	var all []Handler
	for _, h := range s.handlers {
		all = append(all, Handler{h.event, h.fn.Name(), int(h.fn.Position().Line), h.tools})
	}
	return all
}

// handler is a [Handler] with its function.
type handler struct {
	event string
	fn    *starlark.Function
	tools []string
}
