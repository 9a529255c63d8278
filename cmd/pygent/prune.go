package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

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
	case !p.Yes && !confirm(len(chosen), out):
		out.println("nothing was removed; --yes removes without asking")
		return nil
	}
	if err := pygent.Prune(ctx, chosen, cfg.RuntimeOptions()...); err != nil {
		return err
	}
	out.println("removed", len(chosen))
	return nil
}

// confirm asks on a terminal; where there is none, the answer is no.
func confirm(n int, out *output) bool {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return false
	}
	if _, err := fmt.Fprintf(out, "Remove %d? [y/N] ", n); err != nil {
		return false
	}
	// What was typed before an error is no answer either.
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
