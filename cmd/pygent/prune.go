package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/lineinput"
	"github.com/x/pygent/internal/owner"
)

// pruneCmd removes what dead processes left behind.
type pruneCmd struct {
	Names []string `arg:"" optional:"" name:"name" help:"Remove these of what is shown, whosever they are, without asking."`
	Yes   bool     `help:"Remove without asking what this user's pygent left on this machine and nothing is lost with." short:"y"`
}

// Run shows the leftovers, and removes those that the user chooses.
func (p *pruneCmd) Run(ctx context.Context, s *settings, out *output) error {
	cfg, err := s.load()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	found, err := pygent.Leftovers(ctx, cfg.RuntimeOptions()...)
	if err != nil {
		return err
	}
	chosen, err := p.choose(found, out)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return nil
	}
	if err := pygent.Prune(ctx, chosen, cfg.RuntimeOptions()...); err != nil {
		return err
	}
	out.println("removed", len(chosen))
	return nil
}

// choose shows the leftovers, and returns those to remove.
func (p *pruneCmd) choose(found []pygent.Leftover, out *output) ([]pygent.Leftover, error) {
	if len(p.Names) > 0 {
		return named(found, p.Names)
	}
	if len(found) == 0 {
		out.println("nothing is left over")
		return nil, nil
	}
	var chosen []pygent.Leftover
	asks := !p.Yes && term.IsTerminal(int(os.Stdin.Fd()))
	for _, l := range found {
		out.println(l)
		if p.Yes && l.Sure || asks && wanted(l, out) {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		out.println("nothing was removed; --yes removes what this user's pygent surely left, and a NAME removes whatever has it")
	}
	return chosen, nil
}

// named returns the leftovers with these names. One that is not among them is
// an error: it may have been somebody's who still uses it.
func named(found []pygent.Leftover, names []string) ([]pygent.Leftover, error) {
	var chosen []pygent.Leftover
	for _, name := range names {
		has := func(l pygent.Leftover) bool { return l.Name == name }
		if !slices.ContainsFunc(found, has) {
			return nil, &exitError{exitUsage, fmt.Errorf("nothing that is left over is named %q", name)}
		}
		for _, l := range found {
			if has(l) {
				chosen = append(chosen, l)
			}
		}
	}
	return chosen, nil
}

// wanted asks whether to remove one. What may be another's takes its name.
func wanted(l pygent.Leftover, out *output) bool {
	question := "Remove it? [y/N] "
	yes := func(answer string) bool { return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes") }
	if !l.Ours {
		question = "It may be somebody else's. Its name removes it: "
		yes = func(answer string) bool { return answer == owner.Printable(l.Name) }
	}
	for {
		answer, err := ask(question, out)
		if err == nil {
			return yes(answer)
		}
		if !errors.Is(err, errUnseen) {
			out.println()
			return false
		}
		out.println(err)
	}
}

// errUnseen tells that more was entered than an answer: a paste, or what was typed
// before the question was there.
var errUnseen = errors.New("type the answer alone")

// ask shows a question, and reads a line that is typed from then on.
func ask(question string, out *output) (string, error) {
	_ = lineinput.Flush(os.Stdin) // where that is not possible, what was typed ahead is an answer
	if _, err := fmt.Fprint(out, question); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil && lineinput.More(os.Stdin) {
		err = errUnseen
	}
	return strings.TrimSpace(answer), err // what was typed before an error is no answer
}
