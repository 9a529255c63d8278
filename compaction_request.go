package pygent

import (
	"context"
	"fmt"
)

// Compact makes the conversation shorter now, by a summary of the model of all but
// its end; the policy's Disabled does not matter. It returns what was done.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. It
// matches [ErrNothingToCompact] for a short conversation, and says why. If the model
// gives no summary, a list of its last calls takes its place.
func (a *Agent) Compact(ctx context.Context) (done Compaction, err error) {
	err = a.aside(ctx, func(r *run) error {
		done, err = r.compactNow(r.ctx)
		return err
	})
	return done, err
}

// aside calls f with a run that has no steps.
func (a *Agent) aside(ctx context.Context, f func(*run) error) error {
	o, err := newRunOptions(a.opts.run, nil)
	if err != nil {
		return err
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	release, err := a.history.reserve()
	if err != nil {
		return err
	}
	defer release()
	a.listen(ctx, a.handlerFeed(o.onEvent))
	defer a.endListening()
	defer a.rest()
	r := newRun(a, o)
	r.ctx, r.release, r.patience = ctx, release, ctx.Done()
	defer r.endBeside()
	defer r.budget.End()
	return f(r)
}

// compactNow compacts on request.
func (r *run) compactNow(ctx context.Context) (Compaction, error) {
	a := r.agent
	if err := a.history.catchUp(ctx); err != nil {
		return Compaction{}, err
	}
	if at, given, ok := exchangeAtEnd(a.history.view()); ok && hasOpen(given) {
		return Compaction{}, fmt.Errorf("message %d calls tools that have not answered: resume the run first", at+1)
	}
	specs, err := a.refreshSystem(ctx)
	if err != nil {
		return Compaction{}, err
	}
	done, err := r.compact(ctx, specs, r.goal(specs, true))
	if err == nil && done == nil {
		err = r.nothingToCompact(specs)
	}
	if err != nil {
		return Compaction{}, err
	}
	return *done, nil
}

// NewConversation begins a new conversation: of what was said so far, the model is
// sent nothing more. The history keeps it, with a [Compaction] as mark, and an
// [EventCompacted] tells. Files, jobs and tasks stay, and so does what was said with
// Say and is not heard yet. Calls that an interrupted run left open are answered
// first.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. If
// nothing was said, it does nothing.
func (a *Agent) NewConversation(ctx context.Context) error {
	return a.aside(ctx, func(r *run) error { return r.beginAnew(r.ctx) })
}

func (r *run) beginAnew(ctx context.Context) error {
	a := r.agent
	if err := a.history.catchUp(ctx); err != nil {
		return err
	}
	said := a.history.spokenAnew()
	if said == 0 {
		return nil
	}
	if err := a.history.answerOpenCalls(ctx); err != nil {
		return err
	}
	specs, err := a.refreshSystem(ctx)
	if err != nil {
		return err
	}
	gauge := &a.memoryOf(a.currentModel()).gauge
	done := Compaction{Anew: true, Gone: said, Before: gauge.Tokens(a.requestWeight(specs))}
	done.After = gauge.Tokens(a.history.weightAfter(&done) + toolsWeight(specs))
	return r.mark(done)
}

// nothingToCompact says why nothing was done on request.
func (r *run) nothingToCompact(specs []ToolSpec) error {
	a := r.agent
	if a.history.spoken() == 0 {
		return fmt.Errorf("%w: nothing was said yet", ErrNothingToCompact)
	}
	weight, prefix := a.requestWeight(specs), a.history.systemWeight()+toolsWeight(specs)
	gauge := &a.memoryOf(a.currentModel()).gauge
	return fmt.Errorf("%w: about %d of its %d tokens are the system message and the tools; the last message of the user and the last exchange stay too, and a summary of the rest would not be shorter",
		ErrNothingToCompact, gauge.Tokens(prefix), gauge.Tokens(weight))
}

func hasOpen(given []int) bool {
	for _, at := range given {
		if at == noResult {
			return true
		}
	}
	return false
}
