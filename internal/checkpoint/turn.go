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
	Look  func(ctx context.Context, w Workspace, work Work) (large bool, err error)
	Files Workspace
	// Dirs are the names that the workspace has.
	Dirs []string
	// Apart says that commands write files through a mount of their own alone.
	Apart bool
	// Working reports whether commands run in the background.
	Working func(ctx context.Context) bool

	working bool // some ran after the last call
	ended   bool // it looks no more
	ran     bool // a call ran since the last look
	mixed   bool // and one of them did more than run commands
}

// Bounds of a look. One that takes longer than slowLook in a large workspace is the last of
// its turn, so that calls there wait for one at most. In a small one it was slow because
// the machine is busy, which says nothing about the next one.
const (
	lookWithin = 25 * time.Second
	slowLook   = 3 * time.Second
)

// Before is called before a call.
func (t *Turn) Before(ctx context.Context) {
	if t == nil || t.ended {
		return
	}
	t.look(ctx, t.since(ctx))
}

// After is called after a call. Commands says that it ran some and did nothing else, and
// changed are the files that it says it has changed, if that is all it can do.
func (t *Turn) After(ctx context.Context, commands bool, changed []string) {
	if t == nil {
		return
	}
	t.ran, t.mixed = true, t.mixed || !commands
	if t.ended {
		return
	}
	ctx = context.WithoutCancel(ctx) // the call has run
	work := t.since(ctx)
	if !t.working && len(changed) > 0 {
		work.Only = RelativeTo(t.Dirs, changed)
	}
	t.look(ctx, work)
	t.working = t.Working(ctx)
}

// End returns what was done since the last look, for the checkpoint at the end of the
// turn; nil if that is not known.
func (t *Turn) End(ctx context.Context) *Work {
	if t == nil {
		return nil
	}
	work := t.since(ctx)
	work.Watch = false
	return &work
}

// since returns what was done since the last look. The watch goes on when the looks have
// ended, so commands are told apart from others then, too.
func (t *Turn) since(ctx context.Context) Work {
	return Work{Ran: t.ran || t.working || t.Working(ctx), Apart: t.Apart && !t.mixed, Watch: t.Apart}
}

func (t *Turn) look(ctx context.Context, work Work) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	begun := time.Now()
	large, err := t.Look(ctx, t.Files, work)
	if err == nil {
		t.ran, t.mixed = false, false
	}
	t.ended = err != nil || large && time.Since(begun) > slowLook
}
