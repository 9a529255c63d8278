// Package faces has what the faces of an agent, at a terminal and on a page, do alike:
// they follow its events and say what it does ([Doing]), make turns, queue what is said
// meanwhile ([Queue]), start its runtime, and read calls and messages for people.
package faces

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/x/pygent"
)

// RunFunc makes a run of an agent.
type RunFunc func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error)

// Outcome is how the run of a turn ended.
type Outcome struct {
	Result *pygent.Result
	Err    error
	Last   int64 // the number of the run's last event, after which a face has shown all of it
}

// ErrInterrupted is the cause of a context that the person has ended.
var ErrInterrupted = errors.New("interrupted by the user")

// Turn is a run of the agent that a person began. It is over when the run has returned and
// all of its events were shown. It belongs to the goroutine that has the state of a face.
type Turn struct {
	Outcome          // once the run has returned
	Interrupted bool // the person has interrupted it

	cancel   context.CancelCauseFunc
	returned bool
}

// Begin makes a run that a reply ends, and waits for it in a goroutine of the face, which
// background starts. Then post has ended called by the goroutine that has the turn.
func (t *Turn) Begin(ctx context.Context, run RunFunc, background func(func()), post func(func()) bool, ended func()) {
	ctx, t.cancel = context.WithCancelCause(ctx)
	background(func() {
		outcome := runOf(ctx, run)
		t.cancel(nil)
		post(func() {
			t.returned, t.Outcome = true, outcome
			ended()
		})
	})
}

// runOf makes the run of a turn.
func runOf(ctx context.Context, run RunFunc) Outcome {
	var last atomic.Int64
	result, err := run(ctx, pygent.WithEndOnReply(), pygent.WithEndOnStartFailure(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventRunEnd && e.Task == "" {
			last.Store(e.Seq)
		}
	}))
	return Outcome{result, err, last.Load()}
}

// Interrupt ends the run.
func (t *Turn) Interrupt() {
	t.Interrupted = true
	t.cancel(ErrInterrupted)
}

// Over reports whether the turn is over, for a face that has shown the events up to a number.
func (t *Turn) Over(seen int64) bool { return t.returned && seen >= t.Last }

// Cut reports whether the interruption ended the turn, and did not come too late for that.
func (t *Turn) Cut() bool { return t.Interrupted && !t.GoesWell() && !t.Asks() }

// GoesWell reports whether the model ended the turn itself, and asks nothing.
func (o Outcome) GoesWell() bool {
	return o.Err == nil && o.Result != nil && (o.Result.Status == pygent.StatusReplied || o.Result.Status == pygent.StatusStopped)
}

// Asks reports whether the model ended the turn with a question.
func (o Outcome) Asks() bool {
	return o.Err == nil && o.Result != nil && o.Result.Status == pygent.StatusAwaitingUser
}

// Follow passes on the events of an agent after one of a number, until pass returns
// false or there will be no more, which it reports: the agent was closed, or ctx ended.
// Where events are no longer kept, missed says after which number it goes on; false
// ends it.
func Follow(ctx context.Context, agent *pygent.Agent, after int64, pass func(pygent.Event) bool, missed func() (int64, bool)) (closed bool) {
	for ok := true; ok && ctx.Err() == nil; {
		gone := false
		for e, err := range agent.Subscribe(ctx, after) {
			if err != nil {
				gone = true
				break
			}
			if after = e.Seq; !pass(e) {
				return false
			}
		}
		if !gone {
			return true
		}
		after, ok = missed()
	}
	return false
}
