package pygent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// keepStart makes the checkpoint before a turn, while the model is asked.
func (r *run) keepStart(ctx context.Context, msg string) {
	a := r.agent
	if a.checkpoints.book == nil {
		return
	}
	if a.checkpoints.book.Pending() {
		a.finishRestore(ctx)
	}
	if text := a.besideOthers(); text != "" {
		a.checkpoints.tell(Event{Type: EventNotice, Text: text})
	}
	r.turn.kept = true
	kind, words := checkpoint.Start, typed(UserMessage(msg, r.opts.parts...))
	if said := a.unheard.list(); words == "" && len(said) > 0 {
		words = typed(said[0].Message)
	}
	if r.opts.resume || words == "" && len(r.opts.parts) == 0 && a.unheard.empty() {
		kind = checkpoint.Resumed
	}
	r.turn.began = r.keepNow(firstWithin, kind, oneLine(words, maxTurnWords))
}

// typed is the text of a message without that of the files that are quoted in it.
func typed(m Message) string {
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.FileName != "" })
	return m.Text()
}

// keepTurn begins the checkpoint at the end of a turn, and after a single step: what
// changes until the next one is the user's. It reports whether the run has to wait for
// that.
func (r *run) keepTurn(ctx context.Context) (waits bool) {
	if !r.turn.kept {
		return false
	}
	if r.keptCheckpoint(ctx) != nil {
		r.keepLater()
		return false
	}
	if r.turn.leftStart {
		return false
	}
	r.keepNow(lastWithin, checkpoint.End, "")
	return true
}

// keepLater has the checkpoint at the end of a turn made once the one at its start is,
// for which nobody waits any more. No call has run, so the files are the same. If the
// agent is closed before, both are left to the next one.
func (r *run) keepLater() {
	a, k := r.agent, &r.agent.checkpoints
	end := checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.End}}
	end.Place, end.Messages = conversationOf{a}.Place()
	start, done := k.taking, make(chan struct{})
	k.taking = done
	k.working.Go(func() {
		defer close(done)
		<-start
		k.keepUnchanged(r.turn.began, end)
	})
}

// keepUnchanged makes the checkpoint at the end of a turn that has changed no file.
func (k *keptCheckpoints) keepUnchanged(start, end checkpoint.Entry) {
	if err := k.book.Unchanged(context.Background(), start, end); err != nil {
		k.warn("a checkpoint could not be kept: " + err.Error())
	}
}

// keepNow begins a checkpoint of the conversation as it is now, and returns it.
func (r *run) keepNow(within time.Duration, kind checkpoint.Kind, words string) checkpoint.Entry {
	a, k := r.agent, &r.agent.checkpoints
	e := checkpoint.Entry{Note: checkpoint.Note{Kind: kind, Words: words}}
	e.Place, e.Messages = conversationOf{a}.Place()
	files := a.keptFiles()
	if kind == checkpoint.End {
		e.Work = r.turn.End(r.ctx)
	} else {
		r.turn.Turn = r.turnOn(files)
	}
	if kind == checkpoint.Start {
		if err := k.book.Begin(r.ctx, e); err != nil && !errors.Is(err, checkpoint.ErrUnfinished) {
			k.warn("a checkpoint could not be begun: " + err.Error())
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	stop := context.AfterFunc(r.ctx, func() {
		if errors.Is(context.Cause(r.ctx), errClosing) && kind != checkpoint.End {
			cancel(errNextTime)
		}
	})
	if kind != checkpoint.End {
		k.stop.Store(&cancel)
	}
	done := make(chan struct{})
	k.taking = done
	ctx = k.tellsHowFar(ctx, kind)
	k.working.Go(func() {
		defer close(done)
		defer stop()
		defer cancel(nil)
		ctx, end := context.WithTimeout(ctx, within)
		defer end()
		r.turn.leftStart = a.keep(ctx, files, e)
	})
	return e
}

// runTurn is a run as its checkpoints see it.
type runTurn struct {
	*checkpoint.Turn                  // looks at the files before and after calls; nil for nothing
	kept             bool             // there is a checkpoint at its start
	began            checkpoint.Entry // that one
	leftStart        bool             // it is left to the next agent; set before its making ends
}

// turnOn is a turn whose calls may change files, or nil.
func (r *run) turnOn(files checkpoint.Workspace) *checkpoint.Turn {
	a := r.agent
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if files == nil || !ours {
		return nil
	}
	return &checkpoint.Turn{
		Look: a.checkpoints.book.Look, Files: files, Dirs: []string{rt.info.Workspace, rt.Dir()},
		Apart: rt.info.Kind == kindDocker || rt.info.Protection == protectionFull,
		Working: func(ctx context.Context) bool {
			if a.jobs.silent.Load() {
				return true // perhaps
			}
			jobs, err := a.listJobs(ctx)
			return err != nil || len(runningJobs(jobs)) > 0
		},
	}
}

// keepKilled begins the checkpoints that a process which was killed in a turn did not
// make: at its start, if it had not come to change anything, and at its end, so that
// what is changed from now on is the user's. If it makes both, they have the same files.
func (a *Agent) keepKilled() {
	k := &a.checkpoints
	ctx, stop := context.WithCancelCause(context.Background())
	k.stop.Store(&stop)
	start, missing := a.missingStart()
	end := checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.End}}
	end.Place, end.Messages = conversationOf{a}.Place()
	if k.book.Pending() || !missing && !k.book.AtWork() {
		return
	}
	files := a.keptFiles()
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
			a.keep(ctx, files, end)
			return
		}
		if !a.keep(ctx, files, start) {
			k.keepUnchanged(start, end)
		}
	})
}

// missingStart returns the checkpoint at the start of a turn that a killed process did
// not make, if it had recorded the message of that turn.
func (a *Agent) missingStart() (start checkpoint.Entry, missing bool) {
	start, missing = a.checkpoints.book.Begun()
	place, _ := conversationOf{a}.Place()
	return start, missing && !bytes.Equal(start.Place, place)
}

// errNextTime ends what keepKilled has begun, or the checkpoint at the start of a turn, for
// the next agent to make it.
var errNextTime = errors.New("the agent is closed")

// awaitOpened waits for the checkpoints that an agent makes when it is opened.
func (k *keptCheckpoints) awaitOpened() {
	if k.opened != nil {
		<-k.opened
	}
}

// keep makes a checkpoint. If the files cannot be kept, it is one of the conversation.
// left says that it was left to the next agent.
func (a *Agent) keep(ctx context.Context, files checkpoint.Workspace, e checkpoint.Entry) (left bool) {
	_, err := a.checkpoints.book.Take(ctx, files, e)
	if err == nil {
		return false
	}
	if errors.Is(context.Cause(ctx), errNextTime) {
		return true
	}
	why := "the checkpoint lacks the files: "
	if errors.Is(err, tree.ErrTooLarge) || errors.Is(err, context.DeadlineExceeded) && e.Kind != checkpoint.End {
		a.checkpoints.noFiles = "the workspace is too large for checkpoints of its files: " + err.Error()
		why = "from now on, checkpoints have the conversation alone; "
	}
	if files != nil && !errors.Is(err, checkpoint.ErrUnfinished) {
		ctx := context.WithoutCancel(ctx)
		if _, again := a.checkpoints.book.Take(ctx, nil, e); again != nil {
			why = "a checkpoint could not be kept: "
		}
	}
	a.checkpoints.warn(why + err.Error())
	return false
}

// keptCheckpoint waits for a checkpoint that is being made, and tells what there is
// to tell.
func (r *run) keptCheckpoint(ctx context.Context) error {
	k := &r.agent.checkpoints
	if err := r.awaitCheckpoint(ctx, k.taking); err != nil {
		return err
	}
	k.taking = nil
	r.agent.tellCheckpoints()
	return nil
}

// tellWaitAfter is how long a run waits for a checkpoint before people are told.
const tellWaitAfter = time.Second

// awaitCheckpoint waits until a checkpoint is made, which nil is, and tells how far it
// is if that takes a while.
func (r *run) awaitCheckpoint(ctx context.Context, made <-chan struct{}) error {
	if made == nil || hasEnded(made) {
		return nil
	}
	next := time.NewTimer(tellWaitAfter)
	defer next.Stop()
	for told := int64(-1); ; next.Reset(progressEvery) {
		select {
		case <-made:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.C:
		}
		p := ProgressInfo{Text: "keeping the files of the workspace"}
		if p.Current, p.Total = r.agent.checkpoints.far.Reached(); p.Current != told {
			told = p.Current
			r.agent.emit(Event{Type: EventKeeping, Text: keepingWords(p), Progress: &p})
		}
	}
}

// tellsHowFar returns a context in which a checkpoint of a kind is made whose progress a
// run tells that waits for it. The one at the start of the first turn goes on with the
// count of the repair before it, which has read its files: whoever waits sees one count.
func (k *keptCheckpoints) tellsHowFar(ctx context.Context, kind checkpoint.Kind) context.Context {
	k.far = new(progress.Level)
	if kind != checkpoint.End {
		k.far, k.repaired = cmp.Or(k.repaired, k.far), nil
	}
	return k.far.Of(ctx)
}

// keepingWords says how far a checkpoint is.
func keepingWords(p ProgressInfo) string {
	if p.Total == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s: %s of %s", p.Text, numeral.Grouped(p.Current), numeral.Grouped(p.Total))
}
