package main

import (
	"context"
	"fmt"

	"github.com/x/pygent"
)

// pruneCmd removes what dead processes left behind.
type pruneCmd struct {
	Yes bool `help:"Remove without asking." short:"y"`
	All bool `help:"Also what belongs to processes that cannot be seen from here, on other machines say."`
}

// Run shows the leftovers, and removes them when that is wanted.
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
	var chosen []pygent.Leftover
	for _, l := range found {
		out.println(l)
		if l.Sure || p.All {
			chosen = append(chosen, l)
		}
	}
	switch {
	case len(found) == 0:
		out.println("nothing is left over")
		return nil
	case len(chosen) == 0:
		out.println("nothing is surely left over; --all removes these too")
		return nil
	case !p.Yes && !confirm(ctx, fmt.Sprintf("Remove %d? [y/N] ", len(chosen))):
		out.println("nothing was removed; --yes removes without asking")
		return nil
	}
	if err := pygent.Prune(ctx, chosen, cfg.RuntimeOptions()...); err != nil {
		return err
	}
	out.println("removed", len(chosen))
	return nil
}
