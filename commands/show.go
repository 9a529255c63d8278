package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

func diff(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 0, 1, "/diff [PATH]")
	if err != nil {
		return err
	}
	within := "."
	if len(names) == 1 {
		within = path.Clean(names[0])
	}
	var text strings.Builder
	for _, c := range a.Changes() {
		if within == "." || c.Path == within || strings.HasPrefix(c.Path, within+"/") {
			text.WriteString(titled(c))
		}
	}
	if text.Len() == 0 {
		text.WriteString("the agent's tools have changed no file")
		if within != "." {
			text.WriteString(" at " + within)
		}
		text.WriteString("; what commands change is not shown\n")
	}
	_, err = io.WriteString(out, text.String())
	return err
}

// titled is a change with a line above it that names the file.
func titled(c pygent.FileChange) string {
	what := "changed"
	switch {
	case c.Created && c.Deleted:
		return ""
	case c.Created:
		what = "created"
	case c.Deleted:
		what = "deleted"
	}
	title := fmt.Sprintf("%s %s", what, c.Path)
	switch {
	case c.Note != "":
		return title + ": " + c.Note + "\n"
	case c.Binary:
		return title + ": it is no text\n"
	}
	return title + "\n" + strings.TrimSuffix(c.Diff(), "\n") + "\n"
}

// How much is shown of the words of others, in bytes.
const (
	shownPrompt  = 100
	shownCommand = 100
)

func listTasks(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	all, err := a.Tasks().Tasks(ctx, pygent.TaskFilter{})
	if err = cmp.Or(nothing(args), err); err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := io.WriteString(out, "no task has been delegated\n")
		return err
	}
	var rows [][]string
	for _, s := range all {
		took := s.Elapsed(time.Now()).Round(time.Second).String()
		rows = append(rows, []string{s.ID, s.String(), numeral.Count(s.Steps, "step"), took, cut.Line(s.Prompt, shownPrompt)})
	}
	return table(out, rows)
}

func listJobs(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if err := nothing(args); err != nil {
		return err
	}
	var rows [][]string
	for _, j := range a.State().Jobs {
		is := "running"
		switch {
		case j.Running:
		case j.Killed:
			is = "killed"
		case j.TimedOut:
			is = "timed out"
		default:
			is = fmt.Sprintf("exit %d", j.ExitCode)
		}
		rows = append(rows, []string{j.ID, is, j.Duration.Round(time.Second).String(), numeral.Grouped(j.Printed) + " bytes", cut.Line(j.Command, shownCommand)})
	}
	if len(rows) == 0 {
		_, err := io.WriteString(out, "no command runs in the background\n")
		return err
	}
	return table(out, rows)
}

func usage(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if err := nothing(args); err != nil {
		return err
	}
	report := a.Usage()
	if len(report.Models) == 0 {
		_, err := io.WriteString(out, "the model has not answered yet, so that no tokens were used\n")
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(report.Models)) {
		rows = append(rows, []string{cmp.Or(name, "(no name)"), tokens(report.Models[name])})
	}
	cost := "not known: no price is set ([prices] in a file)"
	switch {
	case report.Cost > 0 && len(report.Unpriced) > 0:
		cost = fmt.Sprintf("%.4f, without %s, whose price is not known", report.Cost, strings.Join(report.Unpriced, ", "))
	case report.Cost > 0 || len(report.Unpriced) == 0:
		cost = fmt.Sprintf("%.4f", report.Cost)
	}
	rows = append(rows, []string{"all", tokens(report.Total())}, []string{"cost", cost})
	if c := a.State().Context; c != (pygent.ContextUse{}) {
		full := numeral.Grouped(c.Used) + " tokens"
		if c.Window > 0 {
			full += " of " + numeral.Grouped(c.Window)
		}
		rows = append(rows, []string{"context", full})
	}
	return table(out, rows)
}

// nothing refuses arguments.
func nothing(args string) error {
	if args != "" {
		return errors.New("it takes no arguments")
	}
	return nil
}

// tokens says how many tokens were used.
func tokens(u pygent.Usage) string {
	said := fmt.Sprintf("%s tokens in, %s out", numeral.Grouped(u.PromptTokens), numeral.Grouped(u.CompletionTokens))
	if u.CachedTokens > 0 {
		said += fmt.Sprintf(" (%s of those in were cached)", numeral.Grouped(u.CachedTokens))
	}
	return said
}
