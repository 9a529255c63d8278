package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
	config "github.com/x/pygent/internal/settings"
	"github.com/x/pygent/sessions"
)

// sessionsRmCmd removes sessions.
type sessionsRmCmd struct {
	IDs   []string `arg:"" optional:"" name:"id" help:"The IDs, or their first characters."`
	Older string   `help:"Remove the sessions of all directories that were not used for TIME, such as 30d, after a question." placeholder:"TIME"`
	Yes   bool     `help:"With --older: do not ask." short:"y"`
}

// maxRemovable is how many of the sessions that --older would remove are listed.
const maxRemovable = 20

// Run removes the sessions.
func (c sessionsRmCmd) Run(ctx context.Context, out *output) error {
	dir, list, err := kept()
	if err != nil {
		return err
	}
	chosen, err := c.choose(list)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if c.Older != "" && !c.Yes && len(chosen) > 0 {
		if agreed, err := agreed(ctx, chosen, out); err != nil || !agreed {
			return err
		}
	}
	removed := 0
	var failed error
	for _, info := range chosen {
		err := sessions.Remove(dir, info.ID)
		switch {
		case err == nil:
			removed++
		case c.Older == "" || !errors.Is(err, sessions.ErrInUse): // one in use is not old
			failed = errors.Join(failed, err)
		}
	}
	failed = errors.Join(failed, checkpoint.RemoveOrphans(ctx, treesOf(dir), dir))
	out.println("removed", numeral.Count(removed, "session"))
	return failed
}

// choose returns the sessions to remove.
func (c sessionsRmCmd) choose(list []sessions.Info) (chosen []sessions.Info, err error) {
	if (c.Older == "") == (len(c.IDs) == 0) {
		return nil, errors.New("which sessions? Give their IDs, or --older 30d; \"pygent sessions list --all\" lists them")
	}
	for _, id := range c.IDs {
		info, err := withID(list, id)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(chosen, func(other sessions.Info) bool { return other.ID == info.ID }) {
			chosen = append(chosen, info)
		}
	}
	if c.Older == "" {
		return chosen, nil
	}
	age, ok := config.ParseDuration(c.Older)
	if !ok {
		return nil, fmt.Errorf("--older: want a time such as 30d or 12h, not %q", cut.Line(c.Older, maxValue))
	}
	for _, info := range list {
		if time.Since(info.Used) > age && !info.Open {
			chosen = append(chosen, info)
		}
	}
	return chosen, nil
}

// agreed lists sessions, with the directories that they are of, and asks whether to
// remove them. It is an error if nobody can be asked.
func agreed(ctx context.Context, chosen []sessions.Info, out *output) (bool, error) {
	width := 0
	if s := screen.Stdout(); s.Terminal() {
		width, _ = s.Size()
	}
	for _, line := range sessionLines(chosen[:min(len(chosen), maxRemovable)], width, true) {
		out.println(line)
	}
	if more := len(chosen) - maxRemovable; more > 0 {
		out.println(fmt.Sprintf("… and %d more", more))
	}
	which := numeral.Count(len(chosen), "session")
	if elsewhere := len(chosen) - len(ofDirectory(chosen, workingDir())); elsewhere > 0 {
		which += fmt.Sprintf(", %d of them in other directories", elsewhere)
	}
	if !seen() {
		return false, &exitError{exitUsage, fmt.Errorf("nothing was removed: there is no terminal to ask; use --yes to remove %s", which)}
	}
	answer, ok := ask(ctx, "Remove "+which+"? This cannot be undone. [y/N] ")
	if ctx.Err() != nil {
		return false, &exitError{exitCancel, context.Cause(ctx)}
	}
	if ok && isYes(answer) {
		return true, nil
	}
	out.println("nothing was removed")
	return false, nil
}
