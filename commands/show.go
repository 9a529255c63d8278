package commands

import (
	"context"
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
		text.WriteString("the agent's tools have changed no file there\n")
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

// shownPrompt is how much of a task's prompt is shown, in bytes.
const shownPrompt = 100

func listTasks(ctx context.Context, a *pygent.Agent, _ string, out io.Writer) error {
	all, err := a.Tasks().Tasks(ctx, pygent.TaskFilter{})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, s := range all {
		prompt := cut.Line(s.Prompt, shownPrompt)
		fmt.Fprintf(&text, "%s: %s, %d steps, %s: %s\n", s.ID, s, s.Steps, s.Elapsed(time.Now()).Round(time.Second), prompt)
	}
	if len(all) == 0 {
		text.WriteString("no task has been delegated\n")
	}
	_, err = io.WriteString(out, text.String())
	return err
}

func listJobs(_ context.Context, a *pygent.Agent, _ string, out io.Writer) error {
	var text strings.Builder
	for _, job := range a.State().Jobs {
		fmt.Fprintln(&text, job)
	}
	if text.Len() == 0 {
		text.WriteString("no command runs in the background\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func usage(_ context.Context, a *pygent.Agent, _ string, out io.Writer) error {
	report := a.Usage()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(report.Models)) {
		fmt.Fprintf(&text, "%s: %s\n", name, tokens(report.Models[name]))
	}
	fmt.Fprintf(&text, "all: %s", tokens(report.Total()))
	if report.Cost > 0 {
		fmt.Fprintf(&text, ", cost %.4f", report.Cost)
	}
	switch {
	case len(report.Unpriced) == 0:
	case report.Cost > 0:
		fmt.Fprintf(&text, ", without %s, whose price is not known", strings.Join(report.Unpriced, ", "))
	default:
		text.WriteString("; the cost is not known: no price is set ([prices] in a file)")
	}
	if c := a.State().Context; c != (pygent.ContextUse{}) {
		fmt.Fprintf(&text, "\ncontext: %s tokens", numeral.Grouped(c.Used))
		if c.Window > 0 {
			fmt.Fprintf(&text, " of %s", numeral.Grouped(c.Window))
		}
	}
	_, err := fmt.Fprintln(out, text.String())
	return err
}

// tokens says how many tokens were used.
func tokens(u pygent.Usage) string {
	said := fmt.Sprintf("%s tokens in, %s out", numeral.Grouped(u.PromptTokens), numeral.Grouped(u.CompletionTokens))
	if u.CachedTokens > 0 {
		said += fmt.Sprintf(" (%s of those in were cached)", numeral.Grouped(u.CachedTokens))
	}
	return said
}
