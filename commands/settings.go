package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/internal/spelling"
)

func confirmBash(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	switch args {
	case "on", "off":
		a.SetConfirmBash(args == "on")
	case "":
	default:
		return fmt.Errorf("%q: use on or off", args)
	}
	said := "commands run without asking"
	if a.State().Settings.Confirm {
		said = "pygent asks before each command"
	}
	_, err := fmt.Fprintln(out, said)
	return err
}

// modelsWithin is how long a server is waited for that lists its models.
const modelsWithin = time.Second

func setModel(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 0, 1, "/model [NAME]")
	if err != nil {
		return err
	}
	doubt := ""
	if len(names) == 1 {
		doubt = unknownModel(ctx, a, names[0])
		if err := a.SetModel(nil, names[0]); err != nil {
			return err
		}
	}
	settings := a.State().Settings
	name := cmp.Or(settings.Model, settings.DefaultModel, "the model's default")
	_, err = fmt.Fprint(out, "model: "+name+"\n"+doubt)
	return err
}

// modelNames returns what Agent.ModelNames does. A server that does not answer in
// time does not keep the names that are known anyway.
func modelNames(ctx context.Context, a *pygent.Agent) (names []string, listed bool) {
	ctx, cancel := context.WithTimeout(ctx, modelsWithin)
	defer cancel()
	return a.ModelNames(ctx)
}

// unknownModel says that the model's server does not list a name. It is no error,
// since servers know names that they do not list. It is empty if the server lists the
// name, or if no list is known.
func unknownModel(ctx context.Context, a *pygent.Agent, name string) string {
	known, listed := modelNames(ctx, a)
	if !listed || slices.Contains(known, name) || slices.Contains(known, name+":latest") {
		return ""
	}
	if like := spelling.Nearest(name, known); like != "" {
		return "! the server does not list this model. Did you mean " + like + "?\n"
	}
	return "! the server does not list this model. Press Tab after /model to see those it lists.\n"
}

// toolsUsage is what the command tools takes.
const toolsUsage = "[list|enable|disable NAME…]"

func switchTools(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := slash.Fields(args)
	if err != nil {
		return err
	}
	verb := "list"
	if len(names) > 0 {
		verb, names = names[0], names[1:]
	}
	switch {
	case verb == "list" && len(names) == 0:
		return listTools(a, out)
	case len(names) == 0 || verb != "enable" && verb != "disable":
		return errors.New("usage: /tools " + toolsUsage)
	}
	settings := a.State().Settings
	known := slices.Concat(settings.Tools, settings.Disabled)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return errors.New(unknownTool(name, known) + " /tools lists them")
		}
	}
	if verb == "disable" {
		a.Tools().Disable(names...)
	} else if err := a.Tools().Enable(names...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%sd: %s\n", verb, strings.Join(names, ", "))
	return err
}

// firstSentence is what there is room for of a description.
func firstSentence(description string) string {
	line, _, _ := strings.Cut(description, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}

func unknownTool(name string, known []string) string {
	if like := spelling.Nearest(name, known); like != "" {
		return "there is no tool " + name + ", did you mean " + like + "?"
	}
	return "there is no tool " + name + ";"
}

func listTools(a *pygent.Agent, out io.Writer) error {
	settings := a.State().Settings
	about := map[string]string{}
	for _, t := range a.Tools().Tools() {
		about[t.Name] = firstSentence(t.Description)
	}
	var rows [][]string
	for _, name := range settings.Tools {
		if !slices.Contains(settings.Unoffered, name) {
			rows = append(rows, []string{name, about[name]})
		}
	}
	for _, name := range settings.Unoffered {
		rows = append(rows, []string{name, "(not offered to the model: " + a.Tools().WhyUnoffered(name, a.Runtime()) + ")"})
	}
	for _, name := range settings.Disabled {
		rows = append(rows, []string{name, "(disabled; /tools enable " + name + ")"})
	}
	return table(out, rows)
}

// table writes rows of cells in aligned columns.
func table(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.Join(strings.FieldsFunc(cell, unicode.IsControl), " ")
		}
		if _, err := fmt.Fprintln(w, "  "+strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
