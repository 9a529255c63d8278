package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/script"
)

// homeScript is the user's own script, in the home directory.
const homeScript = ".pygent.star"

// noScript is the value of the setting script for none.
const noScript = "none"

// scripts are the start-up scripts of a session or a run.
type scripts []*script.Script

// loadScripts runs the user's script and the one that the configuration names, or
// else the project's.
func (s *settings) loadScripts(ctx context.Context, cfg pygent.Config, log *slog.Logger) (scripts, error) {
	if cfg.Script == noScript {
		return nil, nil
	}
	var all scripts
	add := func(path string, opts ...script.Option) error {
		one, err := loadScript(ctx, path, log, opts...)
		if err == nil {
			all = append(all, one)
		}
		return err
	}
	if home, err := os.UserHomeDir(); err == nil {
		if path := filepath.Join(home, homeScript); exists(path) {
			if err := add(path); err != nil {
				return nil, err
			}
		}
	}
	if cfg.Script != "" {
		return all, add(cfg.Script)
	}
	if path, found := script.Find(""); found {
		if err := add(path, script.Project()); err != nil {
			return nil, fmt.Errorf("%w\n%s was found in this directory; use --no-script to start without it", err, path)
		}
	}
	return all, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// loadScript runs a script. What it prints meanwhile is shown; what it prints later
// goes to the log, since a session has the terminal then.
func loadScript(ctx context.Context, path string, log *slog.Logger, opts ...script.Option) (*script.Script, error) {
	var loaded atomic.Bool
	print := script.WithPrint(func(text string) {
		switch {
		case !loaded.Load():
			note("%s: %s", path, text)
		case log != nil:
			log.Info("script prints", "script", path, "text", text)
		}
	})
	defer loaded.Store(true)
	return script.Load(ctx, path, append(opts, print, script.WithLogger(log))...)
}

// tables are the settings of the scripts, of which the user may have named one for
// this start.
func (all scripts) tables(named string) (tables []pygent.ConfigTable) {
	for _, s := range all {
		table := s.Settings()
		table.Named = named != "" && s.Path() == named
		tables = append(tables, table)
	}
	return tables
}

// personas adds the personas of the scripts to those of the configuration, which
// come first.
func (all scripts) personas(given []pygent.Persona) []pygent.Persona {
	for _, s := range all {
		for _, p := range s.Personas() {
			if !slices.ContainsFunc(given, func(other pygent.Persona) bool { return strings.EqualFold(other.Name, p.Name) }) {
				given = append(given[:len(given):len(given)], p)
			}
		}
	}
	return given
}

// options are the options of the scripts. Two tools of the same name are an error.
func (all scripts) options() ([]pygent.Option, error) {
	var opts []pygent.Option
	from := map[string]string{}
	for _, s := range all {
		for _, t := range s.Tools() {
			if other, taken := from[t.Name]; taken {
				return nil, fmt.Errorf("tool %s: both %s and %s have one of that name", t.Name, other, s.Path())
			}
			from[t.Name] = s.Path()
		}
		opts = append(opts, s.Options()...)
	}
	return opts, nil
}

func (all scripts) paths() (paths []string) {
	for _, s := range all {
		paths = append(paths, s.Path())
	}
	return paths
}

// scriptInfo describes a script in JSON.
type scriptInfo struct {
	Path    string `json:"path"`
	Project bool   `json:"project"` // it was found, and has the rights of a project's file
}

func (all scripts) info() []scriptInfo {
	info := []scriptInfo{}
	for _, s := range all {
		info = append(info, scriptInfo{s.Path(), s.IsProject()})
	}
	return info
}

// tell says which scripts there are, and what each may do.
func (all scripts) tell() {
	for _, s := range all {
		note("script %s: %s%s", short(s.Path()), contents(s), rights(s))
	}
}

// rights tells of a script that was found.
func rights(s *script.Script) string {
	if s.IsProject() {
		return "; untrusted, because it was found in this directory (--script trusts it, --no-script skips it)"
	}
	return ""
}

// contents counts what a script registers.
func contents(s *script.Script) string {
	var parts []string
	count := func(n int, one, many string) {
		if n == 1 {
			parts = append(parts, "1 "+one)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	count(len(s.Tools()), "tool", "tools")
	count(len(s.Commands()), "command", "commands")
	count(len(s.Personas()), "persona", "personas")
	count(len(s.Handlers()), "handler", "handlers")
	count(settingsIn(s.Settings().Values), "setting", "settings")
	if s.SetsPrompt() {
		parts = append(parts, "the system prompt")
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// settingsIn counts settings, with those in tables.
func settingsIn(values map[string]any) (n int) {
	for _, v := range values {
		if table, ok := v.(map[string]any); ok {
			n += settingsIn(table)
		} else {
			n++
		}
	}
	return n
}

// scriptCmd works with start-up scripts.
type scriptCmd struct {
	Check scriptCheckCmd `cmd:"" help:"Run FILE as at the start of a session, and show what it registers."`
}

// Help says where a script is looked for.
func (scriptCmd) Help() string {
	return `A session or run first runs ~/.pygent.star, then the script of --script,
PYGENT_SCRIPT or the setting "script", or else config.star of the working
directory, which is untrusted. --no-script skips all of them.`
}

// scriptCheckCmd tests a script.
type scriptCheckCmd struct {
	File    string `arg:"" help:"The script."`
	Project bool   `help:"Treat it as untrusted, like a config.star in the working directory."`
}

// Run loads the script and prints what it registers.
func (c scriptCheckCmd) Run(ctx context.Context, s *settings, out *output) error {
	var opts []script.Option
	if c.Project {
		opts = append(opts, script.Project())
	}
	var cfg pygent.Config
	one, err := loadScript(ctx, c.File, nil, opts...)
	if err == nil {
		cfg, err = s.checkScript(one)
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	var text strings.Builder
	printScript(&text, one, cfg)
	_, err = io.WriteString(out, screen.Visible(text.String()))
	return err
}

// checkScript finds what would be wrong at the start of a session only. It returns
// the configuration that the script makes.
func (s *settings) checkScript(one *script.Script) (pygent.Config, error) {
	cfg, err := s.configurationWith(one)
	if err != nil {
		return cfg, err
	}
	for _, warning := range cfg.Warnings {
		warn(warning)
	}
	ours := sessionCommands()
	for _, name := range []string{"compact", "exit", "help", "new", "resume"} {
		ours = append(ours, pygent.Command{Name: name})
	}
	for _, c := range one.Commands() {
		if slices.ContainsFunc(ours, func(other pygent.Command) bool { return other.Name == c.Name }) {
			return cfg, fmt.Errorf("%s: command %s: pygent has one of that name", one.Path(), c.Name)
		}
	}
	return cfg, nil
}

// configurationWith is the configuration that a script makes: by itself, or, of a
// project's, with that of the user, whose limits it may only lower.
func (s *settings) configurationWith(one *script.Script) (pygent.Config, error) {
	if one.IsProject() {
		return s.load(one.Settings())
	}
	unset := func(string) (string, bool) { return "", false }
	return pygent.ConfigSources{NoFiles: true, Lookup: unset, Tables: []pygent.ConfigTable{one.Settings()}}.Load()
}

// printScript prints what a script registers, and its settings in cfg.
func printScript(w io.Writer, s *script.Script, cfg pygent.Config) {
	fmt.Fprintf(w, "%s: %s\n", s.Path(), contents(s))
	for _, t := range s.Tools() {
		fmt.Fprintf(w, "\ntool %s%s\n  %s\n  %s\n", t.Name, approvalOf(t), cut.Line(t.Description, maxValue), t.Parameters)
	}
	section := ""
	row := func(title, format string, args ...any) {
		if section != title {
			section = title
			fmt.Fprintf(w, "\n%s\n", title)
		}
		fmt.Fprintf(w, "  "+format+"\n", args...)
	}
	for _, c := range s.Commands() {
		row("commands", "%s  %s", strings.TrimSpace("/"+c.Name+" "+c.Usage), c.Summary)
	}
	for _, p := range s.Personas() {
		row("personas", "%s: %s", p.Name, cut.Line(p.Description, maxValue))
	}
	for _, h := range s.Handlers() {
		of := "all tools"
		if h.Tools != nil {
			of = strings.Join(h.Tools, ", ")
		}
		if h.Event == "on_start" || h.Event == "on_end" {
			of = "each run"
		}
		row("handlers", "%s %s (line %d), of %s", h.Event, h.Name, h.Line, of)
	}
	for _, given := range cfg.Sources() {
		if given.Source == s.Path() {
			row("settings", "%s = %s", given.Key, cut.Line(given.Value, maxValue))
		}
	}
	if s.SetsPrompt() {
		fmt.Fprintf(w, "\nsystem prompt: set\n")
	}
}

// approvalOf says whether calls of a tool need approval.
func approvalOf(t pygent.Tool) string {
	switch {
	case t.NeedsApproval:
		return " (always needs approval)"
	case t.RunsCommands:
		return " (needs approval where bash does)"
	case t.ReadOnly:
		return " (only reads)"
	}
	return " (needs no approval of its own)"
}
