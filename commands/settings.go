package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/slash"
)

func confirmBash(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	switch args {
	case "on", "off":
		a.SetConfirmBash(args == "on")
	case "":
	default:
		return fmt.Errorf("%q is neither on nor off", args)
	}
	said := "commands run without a question"
	if a.State().Settings.Confirm {
		said = "you are asked before each command"
	}
	_, err := fmt.Fprintln(out, said)
	return err
}

func setModel(_ context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if args != "" {
		if err := a.SetModel(nil, args); err != nil {
			return err
		}
	}
	settings := a.State().Settings
	name := cmp.Or(settings.Model, settings.DefaultModel, "the model's own default")
	_, err := fmt.Fprintln(out, "model: "+name)
	return err
}

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
		return errors.New("the arguments do not fit: /tools [enable|disable NAME…]")
	}
	settings := a.State().Settings
	known := slices.Concat(settings.Tools, settings.Disabled)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no tool %s; /tools lists them", name)
		}
	}
	if verb == "enable" {
		return a.Tools().Enable(names...)
	}
	a.Tools().Disable(names...)
	return nil
}

// firstSentence is what there is room for of a description.
func firstSentence(description string) string {
	line, _, _ := strings.Cut(description, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}

func listTools(a *pygent.Agent, out io.Writer) error {
	var text strings.Builder
	settings := a.State().Settings
	about := map[string]string{}
	for _, t := range a.Tools().Tools() {
		about[t.Name] = firstSentence(t.Description)
	}
	for _, name := range settings.Tools {
		fmt.Fprintf(&text, "  %-22s %s\n", name, about[name])
	}
	for _, name := range settings.Disabled {
		fmt.Fprintf(&text, "  %-22s (disabled)\n", name)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
