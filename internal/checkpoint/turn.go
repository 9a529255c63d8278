package checkpoint

import (
	"context"
	"time"
)

// Turn looks at the files before and after each call of a turn that may change some, so
// that what others change in between is theirs. Only one goroutine at a time may use it.
// A nil one does nothing.
type Turn struct {
	// Look is [Book.Look], and Files are those of the workspace.
	Look  func(ctx context.Context, w Workspace, work Work) error
	Files Workspace
	// Dirs are the names that the workspace has.
	Dirs []string
	// Apart says that commands write files through a mount of their own alone.
	Apart bool
	// Working reports whether commands run in the background.
	Working func(ctx context.Context) bool

	working bool  // some ran after the last call
	failed  error // why it looks no more
}

// Bounds of a look. One that takes longer than slowLook is the last of its turn, so that
// calls in a vast workspace wait for one at most.
const (
	lookWithin = 25 * time.Second
	slowLook   = 3 * time.Second
)

// Before is called before a call.
func (t *Turn) Before(ctx context.Context) {
	if t == nil || t.failed != nil {
		return
	}
	t.look(ctx, Work{Ran: t.working || t.Working(ctx), Apart: t.Apart, Watch: t.Apart})
}

// After is called after a call. Commands says that it ran some and did nothing else, and
// changed are the files that it says it has changed, if that is all it can do.
func (t *Turn) After(ctx context.Context, commands bool, changed []string) {
	if t == nil || t.failed != nil {
		return
	}
	work := Work{Ran: true, Apart: t.Apart && commands, Watch: t.Apart}
	if !t.working && len(changed) > 0 {
		work.Only = RelativeTo(t.Dirs, changed)
	}
	ctx = context.WithoutCancel(ctx) // the call has run
	t.look(ctx, work)
	t.working = t.Working(ctx)
}

// End returns what was done since the last call, for the checkpoint at the end of the
// turn; nil if that is not known.
func (t *Turn) End(ctx context.Context) *Work {
	if t == nil || t.failed != nil {
		return nil
	}
	return &Work{Ran: t.working || t.Working(ctx), Apart: t.Apart}
}

func (t *Turn) look(ctx context.Context, work Work) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	begun := time.Now()
	t.failed = t.Look(ctx, t.Files, work)
	if t.failed == nil && time.Since(begun) > slowLook {
		t.failed = context.DeadlineExceeded
	}
}
