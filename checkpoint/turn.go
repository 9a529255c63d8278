package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/tree"
)

// How long a checkpoint may take: the first reads all files, beside the model; the
// one at the end keeps the caller waiting.
const (
	firstWithin = 3 * time.Minute
	lastWithin  = 25 * time.Second
)

// turn is a run of the agent. It implements [bridge.Turn].
type turn struct {
	keeper    *keeper
	ctx       context.Context  // of the whole run
	looks     *checkpoint.Turn // looks at the files before and after calls; nil for nothing
	began     checkpoint.Entry // the checkpoint at its start
	leftStart bool             // that one is left to the next agent; set before its making ends
}

// Start makes the checkpoint before a turn, while the model is asked.
func (k *keeper) Start(ctx context.Context, s bridge.Start) bridge.Turn {
	if k.book == nil {
		return nil
	}
	if k.book.Pending() {
		k.finishRestore(ctx)
	}
	if text := k.besideOthers(); text != "" {
		k.tell(pygent.Event{Type: pygent.EventNotice, Text: text})
	}
	kind := checkpoint.Start
	if s.Resumes {
		kind = checkpoint.Resumed
	}
	t := &turn{keeper: k, ctx: ctx, began: k.atPlace(kind, s.Words)}
	files := k.keptFiles()
	t.looks = k.looksAt(files)
	if kind == checkpoint.Start {
		if err := k.book.Begin(ctx, t.began); err != nil && !errors.Is(err, checkpoint.ErrUnfinished) {
			k.warn("a checkpoint could not be started: " + err.Error())
		}
	}
	making, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), pygent.ErrAgentClosed) {
			cancel(errNextTime)
		}
	})
	k.stop.Store(&cancel)
	// The one at the start of the first turn goes on with the count of the repair before it,
	// which has read its files: whoever waits sees one count.
	k.far, k.repaired = cmp.Or(k.repaired, new(progress.Level)), nil
	t.make(making, firstWithin, files, t.began, func() { stop(); cancel(nil) })
	return t
}

// Before implements [bridge.Turn].
func (t *turn) Before(ctx context.Context) { t.looks.Before(ctx) }

// After implements [bridge.Turn].
func (t *turn) After(ctx context.Context, commands bool, changed []string) {
	t.looks.After(ctx, commands, changed)
}

// End begins the checkpoint at the end of a turn, and after a single step: what
// changes until the next one is the user's.
func (t *turn) End(ctx context.Context) (waits bool) {
	k := t.keeper
	if k.Await(ctx) != nil {
		t.endLater()
		return false
	}
	if t.leftStart {
		return false
	}
	e := k.atPlace(checkpoint.End, "")
	files := k.keptFiles()
	e.Work = t.looks.End(t.ctx)
	k.far = new(progress.Level)
	t.make(context.WithoutCancel(t.ctx), lastWithin, files, e, func() {})
	return true
}

// endLater has the checkpoint at the end of a turn made once the one at its start is,
// for which nobody waits any more. No call has run, so the files are the same. If the
// agent is closed before, both are left to the next one.
func (t *turn) endLater() {
	k := t.keeper
	end := k.atPlace(checkpoint.End, "")
	start, done := k.taking, make(chan struct{})
	k.taking = done
	k.working.Go(func() {
		defer close(done)
		<-start
		k.keepUnchanged(t.began, end)
	})
}

// make makes a checkpoint, whose progress a run tells that waits for it.
func (t *turn) make(ctx context.Context, within time.Duration, files checkpoint.Workspace, e checkpoint.Entry, end func()) {
	k, done := t.keeper, make(chan struct{})
	k.taking = done
	ctx = k.far.Of(ctx)
	k.working.Go(func() {
		defer close(done)
		defer end()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		t.leftStart = k.keep(ctx, files, e)
	})
}

// keepUnchanged makes the checkpoint at the end of a turn that has changed no file.
func (k *keeper) keepUnchanged(start, end checkpoint.Entry) {
	if err := k.book.Unchanged(context.Background(), start, end); err != nil {
		k.warn("a checkpoint could not be saved: " + err.Error())
	}
}

// looksAt looks at files before and after calls that may change some; nil does not.
func (k *keeper) looksAt(files checkpoint.Workspace) *checkpoint.Turn {
	dir, info := k.agent.Workspace()
	if files == nil || dir == "" {
		return nil
	}
	return &checkpoint.Turn{
		Look: k.book.Look, Files: files, Dirs: []string{info.Workspace, dir},
		Apart:   info.Kind == "docker" || info.Protection == "full",
		Working: k.agent.JobsRun,
	}
}

// keepKilled begins the checkpoints that a process which was killed in a turn did not
// make: at its start, if it had not come to change anything, and at its end, so that
// what is changed from now on is the user's. If it makes both, they have the same files.
func (k *keeper) keepKilled() {
	ctx, stop := context.WithCancelCause(context.Background())
	k.stop.Store(&stop)
	start, missing := k.missingStart()
	end := k.atPlace(checkpoint.End, "")
	if k.book.Pending() || !missing && !k.book.AtWork() {
		return
	}
	files := k.keptFiles()
	k.opened = make(chan struct{})
	k.taking = k.opened
	k.repaired = new(progress.Level)
	k.far = k.repaired
	ctx = k.far.Of(ctx)
	k.working.Go(func() {
		defer close(k.opened)
		ctx, cancel := context.WithTimeout(ctx, firstWithin)
		defer cancel()
		if !missing {
			k.keep(ctx, files, end)
			return
		}
		if !k.keep(ctx, files, start) {
			k.keepUnchanged(start, end)
		}
	})
}

// missingStart returns the checkpoint at the start of a turn that a killed process did
// not make, if it had recorded the message of that turn.
func (k *keeper) missingStart() (start checkpoint.Entry, missing bool) {
	start, missing = k.book.Begun()
	place, _ := conversation{k.agent}.Place()
	return start, missing && !bytes.Equal(start.Place, place)
}

// errNextTime ends what keepKilled has begun, or the checkpoint at the start of a turn, for
// the next agent to make it.
var errNextTime = errors.New("the agent is closed")

// keep makes a checkpoint. If the files cannot be kept, it is one of the conversation.
// left says that it was left to the next agent.
func (k *keeper) keep(ctx context.Context, files checkpoint.Workspace, e checkpoint.Entry) (left bool) {
	_, err := k.book.Take(ctx, files, e)
	if err == nil {
		return false
	}
	if errors.Is(context.Cause(ctx), errNextTime) {
		return true
	}
	why := "the checkpoint lacks the files: "
	if errors.Is(err, tree.ErrTooLarge) || errors.Is(err, context.DeadlineExceeded) && e.Kind != checkpoint.End {
		k.noFiles = "the workspace is too large for checkpoints of its files: " + err.Error()
		why = "from now on, checkpoints contain only the conversation; "
	}
	if files != nil && !errors.Is(err, checkpoint.ErrUnfinished) {
		ctx := context.WithoutCancel(ctx)
		if _, again := k.book.Take(ctx, nil, e); again != nil {
			why = "a checkpoint could not be saved: "
		}
	}
	k.warn(why + err.Error())
	return false
}

// Bounds of how a wait for a checkpoint is told.
const (
	tellWaitAfter = time.Second            // before people are told
	tellWaitEvery = 100 * time.Millisecond // at most
)

// Await waits for a checkpoint that is being made, and tells what there is to tell.
func (k *keeper) Await(ctx context.Context) error {
	if err := k.await(ctx); err != nil {
		return err
	}
	k.taking = nil
	for _, e := range k.untold {
		k.agent.Emit(e)
	}
	k.untold = nil
	return nil
}

// await waits until the checkpoint is made, and tells how far it is if that takes a while.
func (k *keeper) await(ctx context.Context) error {
	if k.taking == nil {
		return nil
	}
	select {
	case <-k.taking:
		return nil
	default:
	}
	next := time.NewTimer(tellWaitAfter)
	defer next.Stop()
	for told := int64(-1); ; next.Reset(tellWaitEvery) {
		select {
		case <-k.taking:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.C:
		}
		p := pygent.ProgressInfo{Text: "saving the files of the workspace"}
		if p.Current, p.Total = k.far.Reached(); p.Current != told {
			told = p.Current
			k.agent.Emit(pygent.Event{Type: pygent.EventKeeping, Text: progressWords(p), Progress: &p})
		}
	}
}

// progressWords says how far a checkpoint is.
func progressWords(p pygent.ProgressInfo) string {
	if p.Total == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s: %s of %s", p.Text, numeral.Grouped(p.Current), numeral.Grouped(p.Total))
}
