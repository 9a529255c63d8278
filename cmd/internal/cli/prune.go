package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
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
	ctx, stop := interruptible(ctx)
	defer stop()
	found, err := pygent.Leftovers(ctx, cfg.RuntimeOptions()...)
	if err != nil {
		return err
	}
	chosen, err := p.choose(ctx, found, out)
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
func (p *pruneCmd) choose(ctx context.Context, found []pygent.Leftover, out *output) ([]pygent.Leftover, error) {
	if len(p.Names) > 0 {
		return named(found, p.Names)
	}
	if len(found) == 0 {
		out.println("nothing is left over")
		return nil, nil
	}
	var chosen []pygent.Leftover
	asks := !p.Yes && seen()
	for _, l := range found {
		out.println(l)
		if p.Yes && l.Sure || asks && wanted(ctx, l) {
			chosen = append(chosen, l)
		}
		if ctx.Err() != nil { // the user gave up and chose nothing
			return nil, &exitError{exitCancel, context.Cause(ctx)}
		}
	}
	if len(chosen) == 0 {
		out.println("nothing was removed; --yes removes what this user's pygent surely left, and a NAME removes whatever has it")
	}
	return chosen, nil
}

// named returns the leftovers with these names. A name that is not among them is
// an error, because it may belong to a process that still runs.
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

// wanted asks whether to remove a leftover. The user has to type the name of one
// that may be somebody else's.
func wanted(ctx context.Context, l pygent.Leftover) bool {
	question := "Remove it? [y/N] "
	yes := isYes
	if !l.Ours {
		question = "It may be somebody else's. Its name removes it: "
		yes = func(answer string) bool { return answer == owner.Printable(l.Name) }
	}
	answer, ok := ask(ctx, question)
	return ok && yes(answer)
}

// isYes reports whether an answer is a yes.
func isYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}
