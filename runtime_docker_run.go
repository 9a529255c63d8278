package pygent

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/guest"
)

// boxedGuest is the guest of a container, which may die with it.
type boxedGuest struct {
	guestCommander
	box     *dockerContainer
	running atomic.Int32 // commands
}

func (g *boxedGuest) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	alone := g.running.Add(1) == 1
	defer g.running.Add(-1)
	begun := time.Now()
	res, survivors, err := g.execute(ctx, spec)
	switch {
	case ctx.Err() == nil && (errors.Is(err, guest.ErrUnsent) || alone && starved(err)):
		return BashResult{ExitCode: -1}, errContainerGone
	case ctx.Err() == nil && errors.Is(err, guest.ErrClosed):
		res = unanswered(spec, begun)
		res.Note, err = g.box.abandon(err, spec.endTime(begun))+g.lastWords(), nil
	case err != nil && !g.client.Alive(): // it did not even answer to a cancel
		res.Note = g.box.abandon(g.client.Err(), minEndTime)
	case survivors > 0:
		res.Note += "; " + g.box.abandon(errSurvivors, minEndTime)
	}
	return res, err
}

// errSurvivors is why a container is given up in which processes do not end.
var errSurvivors = errors.New("processes that cannot be killed")

// unanswered is the result of a command of which nothing more will be known.
func unanswered(spec commandSpec, begun time.Time) BashResult {
	took := time.Since(begun)
	return BashResult{ExitCode: -1, Duration: took, TimedOut: spec.timeout >= 0 && took >= spec.timeout}
}

// starved reports whether a command could not begin because the guest has no
// file descriptors left. Without other commands that is for good: a command may
// lower the limits of a process of its own user, PID 1 included.
func starved(err error) bool {
	return err != nil && strings.Contains(err.Error(), "too many open files")
}
