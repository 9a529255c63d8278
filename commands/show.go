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
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

func diff(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 0, 2, "/diff [N] [PATH]")
	if err != nil {
		return err
	}
	turns := 0
	if len(names) > 0 {
		if n, err := strconv.Atoi(names[0]); err == nil {
			if n < 1 {
				return fmt.Errorf("%d: give a number of turns such as 1; for a file of that name, write ./%d", n, n)
			}
			turns, names = n, names[1:]
		}
	}
	if len(names) > 1 {
		return errors.New("usage: /diff [N] [PATH]")
	}
	within := "."
	if len(names) == 1 {
		within = path.Clean(names[0])
	}
	if turns > 0 {
		changes, more, err := changesOf(ctx, a, turns)
		if err != nil {
			return err
		}
		return showChanges(out, changes, more, within, "no file has changed", "")
	}
	changes, more, by, err := sessionChanges(ctx, a)
	if err != nil {
		return err
	}
	none, hint := "no file has changed since the session began", ""
	if by == byTools {
		none, hint = "the agent's tools have not changed any file", "; changes made by commands are shown only with checkpoints"
	}
	return showChanges(out, changes, more, within, none, hint)
}

// showChanges shows the changes at a path and below it, or that there are none, and a
// hint.
func showChanges(out io.Writer, changes []pygent.FileChange, more bool, within, none, hint string) error {
	text := changesWithin(changes, within)
	if text == "" {
		if within != "." {
			none += " at " + within
		}
		text = none + hint + "\n"
	}
	if more {
		text += "more changes are not shown; give a PATH to see them\n"
	}
	_, err := io.WriteString(out, text)
	return err
}

// How it is known what has changed.
type knownBy int

const (
	byCheckpoints knownBy = iota // whoever changed it
	byTools                      // by the agent's tools alone
)

// sessionChanges returns what is other than when the session began.
func sessionChanges(ctx context.Context, a *pygent.Agent) (changes []pygent.FileChange, more bool, by knownBy, err error) {
	for _, c := range a.Checkpoints() {
		if c.Files {
			changes, more, err = a.Differences(ctx, c.ID, 0)
			return changes, more, byCheckpoints, err
		}
	}
	return a.Changes(), false, byTools, nil
}

// changesWithin shows the changes at a path and below it.
func changesWithin(changes []pygent.FileChange, within string) string {
	var text strings.Builder
	for _, c := range changes {
		if within == "." || c.Path == within || strings.HasPrefix(c.Path, within+"/") {
			text.WriteString(titled(c))
		}
	}
	return text.String()
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
	title := what + " " + escape.Name(c.Path)
	switch {
	case c.Note != "":
		return title + ": " + c.Note + "\n"
	case c.Binary:
		return title + ": binary file\n"
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
		_, err := io.WriteString(out, "no background tasks\n")
		return err
	}
	var rows [][]string
	for _, s := range all {
		took := "-" // it has not begun
		if !s.Started.IsZero() {
			took = numeral.Took(s.Elapsed(time.Now()))
		}
		rows = append(rows, []string{s.ID, s.String(), numeral.Count(s.Steps, "step"), took, cut.Line(s.Prompt, shownPrompt)})
	}
	return table(out, rows)
}

func listJobs(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if err := nothing(args); err != nil {
		return err
	}
	jobs, err := a.Jobs(ctx)
	if err != nil {
		return listKnownJobs(ctx, a, out, err)
	}
	if len(jobs) == 0 {
		_, err := io.WriteString(out, "no background commands\n")
		return err
	}
	return table(out, jobRows(jobs))
}

// listKnownJobs lists the jobs as they were when the runtime told of them last, and
// says so, since it does not tell now. If it has told of none, that is the error.
func listKnownJobs(ctx context.Context, a *pygent.Agent, out io.Writer, silent error) error {
	known := a.State()
	if ctx.Err() != nil || len(known.Jobs) == 0 {
		return silent
	}
	if err := table(out, jobRows(known.Jobs)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "This is the state %s ago. The current state could not be read: %v\n", numeral.Took(time.Since(known.JobsAt)), silent)
	return err
}

func jobRows(jobs []pygent.Job) (rows [][]string) {
	for _, j := range jobs {
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
		rows = append(rows, []string{j.ID, is, numeral.Took(j.Duration), numeral.Count(j.Printed, "byte"), cut.Line(j.Command, shownCommand)})
	}
	return rows
}

func usage(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if err := nothing(args); err != nil {
		return err
	}
	report := a.Usage()
	if len(report.Models) == 0 {
		_, err := io.WriteString(out, "the model has not answered yet: no tokens used\n")
		return err
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(report.Models)) {
		rows = append(rows, []string{cmp.Or(name, "(no name)"), tokens(report.Models[name])})
	}
	cost := "unknown: no price is set (see [prices] in the configuration)"
	switch {
	case report.Cost > 0 && len(report.Unpriced) > 0:
		cost = fmt.Sprintf("%.4f, without %s (price unknown)", report.Cost, strings.Join(report.Unpriced, ", "))
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
		said += fmt.Sprintf(" (%s cached)", numeral.Grouped(u.CachedTokens))
	}
	return said
}
