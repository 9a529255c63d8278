package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
)

// configCmd shows what is set, and where.
type configCmd struct {
	JSON bool `help:"Print the settings as JSON."`
}

// Run prints the settings and their sources.
func (c configCmd) Run(ctx context.Context, s *settings, out *output) error {
	cfg, _, err := s.configure(ctx, func(pygent.Config) (*slog.Logger, error) { return nil, nil })
	if err != nil {
		return &exitError{exitUsage, err}
	}
	flags, err := s.variables()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	sources := cfg.Sources()
	for i := range sources {
		nameFlag(&sources[i], flags)
	}
	for _, name := range s.OmitTool {
		sources = append(sources, pygent.ConfigSetting{Key: "disabled_tools", Source: "command line", Name: "--omit-tool", Value: name})
	}
	if c.JSON {
		return writeJSON(out, struct {
			Settings []pygent.ConfigSetting `json:"settings"`
			Files    []string               `json:"files"`
			Scripts  []scriptInfo           `json:"scripts"`
			Warnings []string               `json:"warnings"`
		}{append([]pygent.ConfigSetting{}, sources...), append([]string{}, cfg.Files...), s.scripts.info(), append([]string{}, cfg.Warnings...)})
	}
	for _, warning := range cfg.Warnings {
		warn(warning)
	}
	if err := printSources(out, sources); err != nil {
		return err
	}
	printFiles(out, cfg.Files)
	for _, one := range s.scripts {
		out.println("Script: " + short(one.Path()) + ": " + contents(one) + rights(one))
	}
	return nil
}

// nameFlag makes a setting of a flag name the flag.
func nameFlag(setting *pygent.ConfigSetting, flags []flagVariable) {
	if setting.Source != "-e" {
		return
	}
	setting.Source = "command line"
	name := "-e " + setting.Name
	for _, f := range flags {
		if f.variable == setting.Name {
			name = f.flag
		}
	}
	setting.Name = name
}

// printSources prints a line for each setting: its name, its value, and where
// that comes from.
func printSources(w io.Writer, sources []pygent.ConfigSetting) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range sources {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cmp.Or(s.Key, s.Name), cut.Line(s.Value, maxValue), placeOf(s))
	}
	return table.Flush()
}

// maxValue is how much of a value is shown, in bytes.
const maxValue = 100

func placeOf(s pygent.ConfigSetting) string {
	switch {
	case s.Line > 0:
		return fmt.Sprintf("%s:%d", short(s.Source), s.Line)
	case s.Name != "":
		return s.Source + " " + s.Name
	}
	return s.Source
}

// printFiles prints which files were read, and which would be.
func printFiles(w io.Writer, read []string) {
	names := make([]string, len(read))
	for i, path := range read {
		names[i] = short(path)
	}
	if len(names) == 0 {
		names = []string{"none; ~/.pygent.toml and ./pygent.toml are read if they exist"}
	}
	fmt.Fprintf(w, "\nFiles that were read: %s\n", strings.Join(names, ", "))
}

// short writes a path below the user's home with "~".
func short(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return path
}
