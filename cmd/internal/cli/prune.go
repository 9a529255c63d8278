package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/owner"
)

// pruneCmd removes what dead processes left behind.
type pruneCmd struct {
	Names []string `arg:"" optional:"" name:"name" help:"Remove the items with these names without asking, even if they belong to somebody else."`
	All   bool     `help:"Also list all items that may belong to other users."`
	Yes   bool     `help:"Remove, without asking, your own leftovers on this machine that hold no unsaved work." short:"y"`
}

// Run shows the leftovers, and removes those that the user chooses.
func (p *pruneCmd) Run(ctx context.Context, s *settings, out *output) error {
	cfg, err := s.load()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	endSaying := sayIfSlow("still looking for leftovers… Ctrl-C to stop")
	found, err := leftOver(tellingOfEngine(ctx), cfg)
	endSaying()
	if _, err = unlessInterrupted(ctx, nil, err); err != nil {
		return err
	}
	chosen, err := p.choose(ctx, found, out)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return nil
	}
	defer sayIfSlow("still removing… Ctrl-C to stop")()
	if err := pygent.Prune(ctx, chosen, cfg.RuntimeOptions()...); err != nil {
		_, err = unlessInterrupted(ctx, nil, err)
		return err
	}
	out.println("removed", len(chosen))
	return nil
}

// leftOver lists the leftovers. If no engine answers, it says that those on an engine are
// not among them, unless the configuration wants none of it.
func leftOver(ctx context.Context, cfg pygent.Config) ([]pygent.Leftover, error) {
	opts := cfg.RuntimeOptions()
	if cfg.Container.Docker != pygent.DockerAuto {
		return pygent.Leftovers(ctx, opts...)
	}
	found, err := pygent.Leftovers(ctx, append(slices.Clip(opts), pygent.WithDocker(pygent.DockerRequired))...)
	if err == nil || !errors.Is(err, pygent.ErrDockerUnavailable) {
		return found, err
	}
	warn("containers and volumes were not checked: " + err.Error())
	return pygent.Leftovers(ctx, append(slices.Clip(opts), pygent.WithDocker(pygent.DockerNever))...)
}

// shownOthers is how many leftovers that may be somebody else's are shown of those that
// are kept for the same reason.
const shownOthers = 10

// hides reports whether a leftover, among others that byReason has sorted, is one too many.
func (p *pruneCmd) hides(found []pygent.Leftover, i int) bool {
	if p.All || found[i].Ours {
		return false
	}
	before := 0
	for at := i - 1; at >= 0 && found[at].Why == found[i].Why && before < shownOthers; at-- {
		if !found[at].Ours {
			before++
		}
	}
	return before == shownOthers
}

// choose shows the leftovers, and returns those to remove.
func (p *pruneCmd) choose(ctx context.Context, found []pygent.Leftover, out *output) ([]pygent.Leftover, error) {
	if len(p.Names) > 0 {
		return named(found, p.Names)
	}
	if len(found) == 0 {
		out.println("no leftovers")
		return nil, nil
	}
	var chosen []pygent.Leftover
	asks := !p.Yes && seen()
	found = byReason(found)
	hidden := 0
	for i, l := range found {
		if p.hides(found, i) {
			hidden++
		} else {
			out.println(described(found, i))
			if p.Yes && l.Sure || asks && wanted(ctx, l) {
				chosen = append(chosen, l)
			}
		}
		if last := i+1 == len(found) || found[i+1].Why != l.Why; last && hidden > 0 {
			out.println("  … and " + numeral.Grouped(hidden) + " more (use --all to list them)")
			hidden = 0
		}
		if ctx.Err() != nil { // the user gave up and chose nothing
			return nil, &exitError{exitCancel, context.Cause(ctx)}
		}
	}
	switch {
	case len(chosen) > 0:
	case p.Yes:
		out.println("nothing was removed: none of these is known to be yours and free of unsaved work; give a NAME to remove one anyway")
	default:
		out.println("nothing was removed; use --yes to remove those known to be yours and free of unsaved work, or give the NAME of one")
	}
	return chosen, nil
}

// byReason returns leftovers with those together that are kept for the same reason, and
// first those that are not.
func byReason(found []pygent.Leftover) []pygent.Leftover {
	first := map[string]int{"": -1}
	for i, l := range found {
		if _, known := first[l.Why]; !known {
			first[l.Why] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(found), func(a, b pygent.Leftover) int { return first[a.Why] - first[b.Why] })
}

// described is the line for a leftover among others that byReason has sorted. A reason
// that several have stands above the first of them.
func described(found []pygent.Leftover, i int) string {
	l := found[i]
	same := func(at int) bool { return at >= 0 && at < len(found) && found[at].Why == l.Why }
	if l.Why == "" || !same(i-1) && !same(i+1) {
		return l.String()
	}
	head, n := "", 1
	for same(i + n) {
		n++
	}
	if !same(i - 1) {
		head = fmt.Sprintf("%d leftovers: %s\n", n, l.Why)
	}
	l.Why = ""
	return head + "  " + l.String()
}

// named returns the leftovers with these names. A name that is not among them is
// an error, because it may belong to a process that still runs.
func named(found []pygent.Leftover, names []string) ([]pygent.Leftover, error) {
	var chosen []pygent.Leftover
	for _, name := range names {
		has := func(l pygent.Leftover) bool { return l.Name == name }
		if !slices.ContainsFunc(found, has) {
			return nil, &exitError{exitUsage, fmt.Errorf("no leftover is named %q", name)}
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
		question = "It may belong to somebody else. To remove it, give its name: "
		yes = func(answer string) bool { return answer == owner.Printable(l.Name) }
	}
	answer, ok := ask(ctx, question)
	return ok && yes(answer)
}

// isYes reports whether an answer is a yes.
func isYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}
