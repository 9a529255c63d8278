package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/guard"
)

// The bounds of what Close waits for. Each part of a run that ends is given
// [guard.Grace] of its own.
const (
	runEndsWithin = 30 * time.Second
	cleanupWithin = time.Minute
)

// Close cancels a run that goes on and waits for it, ends the agent's tasks,
// cleans up the runtime, and closes the history that the agent opened. It may be
// called more than once.
//
// Called by a tool or an event handler of the agent or of one of its tasks, or in
// the body of a loop over [Agent.Events], it would wait for its caller: it does
// nothing and returns an error that matches [ErrInCallback]. What does not return
// although it was cancelled is left behind, and named by an error that matches
// [ErrLeftBehind].
func (a *Agent) Close() error {
	if a.closesItself() {
		return fmt.Errorf("close the agent: %w", ErrInCallback)
	}
	first := a.markClosed()
	ctx, cancel := context.WithTimeout(context.Background(), runEndsWithin)
	defer cancel()
	if a.busy.LockContext(ctx) == nil {
		defer a.busy.Unlock()
	} else {
		defer a.foreign.Enter("the run")() // which leftBehind tells
	}
	if !first {
		return nil
	}
	err := errors.Join(a.closeTasks(), a.cleanup(), a.closeHistory())
	a.tellGitChanges()
	ctx, cancel = context.WithTimeout(context.Background(), guard.Grace)
	defer cancel()
	a.eventsHandled(ctx)
	return errors.Join(err, a.leftBehind())
}

// closesItself reports whether Close is called by what it would wait for: by the
// agent, or by one of its tasks.
func (a *Agent) closesItself() bool {
	if a.inCallback() {
		return true
	}
	m := a.tasks.made()
	return m != nil && !a.tasks.given && m.closesItself()
}

// markClosed refuses further runs and cancels the one that goes on. It reports
// whether the agent was open.
func (a *Agent) markClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.closed
	a.closed = true
	if a.cancel != nil {
		a.cancel(errClosing)
	}
	return first
}

// cleanup cleans up the runtime. Those of this package take a bounded time, the
// caller's own are not waited for longer than cleanupWithin.
func (a *Agent) cleanup() error {
	ctx := context.Background()
	if _, ours := a.runtime.(*workspaceRuntime); !ours {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cleanupWithin, errCleanupSlow)
		defer cancel()
	}
	_, err := guard.Outlive(ctx, func() (struct{}, error) {
		defer a.enter(&a.calling, "the runtime's Cleanup")()
		return struct{}{}, a.runtime.Cleanup()
	})
	a.logPanic("cleanup", err)
	if errors.Is(err, errCleanupSlow) {
		return nil // leftBehind tells
	}
	return err
}

var errCleanupSlow = errors.New("the clean-up took too long")

// leftBehind names the calls that go on although nothing waits for them.
func (a *Agent) leftBehind() error {
	names := a.foreign.Names()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("close the agent: %s %w", strings.Join(names, ", "), ErrLeftBehind)
}
