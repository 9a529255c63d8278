package pygent

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/x/pygent/internal/checkpoint"
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
	r.kept = true
	kind, words := checkpoint.Start, typed(UserMessage(msg, r.opts.parts...))
	if said := a.unheard.list(); words == "" && len(said) > 0 {
		words = typed(said[0].Message)
	}
	if r.opts.resume || words == "" && len(r.opts.parts) == 0 && a.unheard.empty() {
		kind = checkpoint.Resumed
	}
	r.keepNow(firstWithin, kind, oneLine(words, maxTurnWords))
}

// typed is the text of a message without that of the files that are quoted in it.
func typed(m Message) string {
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.FileName != "" })
	return m.Text()
}

// keepTurn begins the checkpoint at the end of a turn, and after a single step: what
// changes until the next one is the user's.
func (r *run) keepTurn() {
	if !r.kept {
		return
	}
	_ = r.keptCheckpoint(context.Background())
	r.keepNow(lastWithin, checkpoint.End, "")
}

// keepNow begins a checkpoint of the conversation as it is now.
func (r *run) keepNow(within time.Duration, kind checkpoint.Kind, words string) {
	a := r.agent
	e := checkpoint.Entry{Note: checkpoint.Note{Kind: kind, Words: words}}
	e.Place, e.Messages = conversationOf{a}.Place()
	files := a.keptFiles()
	if kind == checkpoint.Start {
		if err := a.checkpoints.book.Begin(r.ctx, e); err != nil && !errors.Is(err, checkpoint.ErrUnfinished) {
			a.checkpoints.warn("a checkpoint could not be begun: " + err.Error())
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), within)
	stop := context.AfterFunc(r.ctx, func() {
		if errors.Is(context.Cause(r.ctx), errClosing) && kind != checkpoint.End {
			cancel()
		}
	})
	done := make(chan struct{})
	a.checkpoints.taking = done
	a.checkpoints.working.Go(func() {
		defer close(done)
		defer cancel()
		defer stop()
		a.keep(ctx, files, e)
	})
}

// keepKilled begins the checkpoints that a process which was killed in a turn did not
// make: at its start, if it had not come to change anything, and at its end, so that
// what is changed from now on is the user's.
func (a *Agent) keepKilled() {
	k := &a.checkpoints
	ctx, stop := context.WithCancelCause(context.Background())
	k.stop = func() { stop(errNextTime) }
	start, missing := a.missingStart()
	end := checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.End}}
	end.Place, end.Messages = conversationOf{a}.Place()
	if k.book.Pending() || !missing && !k.book.AtWork() {
		return
	}
	files := a.keptFiles()
	k.opened = make(chan struct{})
	k.taking = k.opened
	k.working.Go(func() {
		defer close(k.opened)
		ctx, cancel := context.WithTimeout(ctx, firstWithin)
		defer cancel()
		if missing {
			a.keep(ctx, files, start)
		}
		a.keep(ctx, files, end)
	})
}

// missingStart returns the checkpoint at the start of a turn that a killed process did
// not make, if it had recorded the message of that turn.
func (a *Agent) missingStart() (start checkpoint.Entry, missing bool) {
	start, missing = a.checkpoints.book.Begun()
	place, _ := conversationOf{a}.Place()
	return start, missing && !bytes.Equal(start.Place, place)
}

// errNextTime ends what keepKilled has begun, for the next agent to do it.
var errNextTime = errors.New("the agent is closed")

// awaitOpened waits for the checkpoints that an agent makes when it is opened.
func (k *keptCheckpoints) awaitOpened() {
	if k.opened != nil {
		<-k.opened
	}
}

// keep makes a checkpoint. If the files cannot be kept, it is one of the conversation.
func (a *Agent) keep(ctx context.Context, files checkpoint.Workspace, e checkpoint.Entry) {
	_, err := a.checkpoints.book.Take(ctx, files, e)
	if err == nil || errors.Is(context.Cause(ctx), errNextTime) {
		return
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
}

// keptCheckpoint waits for a checkpoint that is being made, and tells what there is
// to tell.
func (r *run) keptCheckpoint(ctx context.Context) error {
	k := &r.agent.checkpoints
	if k.taking != nil {
		select {
		case <-k.taking:
			k.taking = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.agent.tellCheckpoints()
	return nil
}
