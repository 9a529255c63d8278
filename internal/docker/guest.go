package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/sandbox"
)

// boxedGuest is the guest of a container. It dies with the container.
type boxedGuest struct {
	sandbox.GuestCommander
	box     *Container
	running atomic.Int32 // commands
}

func (g *boxedGuest) Run(ctx context.Context, spec sandbox.Command) (sandbox.Result, error) {
	alone := g.running.Add(1) == 1
	defer g.running.Add(-1)
	begun := time.Now()
	res, survivors, err := g.Execute(ctx, spec)
	switch {
	case ctx.Err() == nil && (errors.Is(err, guest.ErrUnsent) || alone && starved(err)):
		return sandbox.Result{ExitCode: -1}, errContainerGone
	case ctx.Err() == nil && errors.Is(err, guest.ErrClosed):
		res = spec.Unanswered(begun)
		res.Note, err = g.box.abandon(err, endTime(spec, begun))+g.LastWords(), nil
	case err != nil && !g.Client.Alive(): // it did not even answer to a cancel
		res.Note = g.box.abandon(g.Client.Err(), minEndTime)
	case survivors > 0:
		res.Note += "; " + g.box.abandon(errSurvivors, minEndTime)
	}
	return res, err
}

// errSurvivors is why a container is given up when processes in it do not end.
var errSurvivors = errors.New("processes that cannot be killed")

// starved reports whether a command could not begin because the guest has no
// file descriptors left. Without other commands that is for good: a command may
// lower the limits of a process of its own user, PID 1 included.
func starved(err error) bool {
	return err != nil && strings.Contains(err.Error(), "too many open files")
}

// openWay gives the commands of a container its way out: a proxy on a port inside,
// for as long as the guest runs.
func (b *Container) openWay(ctx context.Context, way *egress.Proxy) error {
	if way == nil {
		return nil
	}
	g, ok := b.commands.(*boxedGuest)
	if !ok {
		b.emit(sandbox.Event{Kind: sandbox.Limited, Text: "no host can be allowed: " + sandbox.ErrNoGuest.Error()})
		return nil
	}
	l, err := g.Client.Listen(ctx, 0)
	if err != nil {
		return fmt.Errorf("open a way to the allowed hosts: %w", err)
	}
	g.Client.SetEnv(egress.Environment(l.Port()))
	b.watched.Go(func() { way.Serve(l, g.Client.Pause) })
	return nil
}
