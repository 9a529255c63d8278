package pygent

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// What Close allows for, so that nothing can hold it up for ever.
const (
	// closeRuns is how long it waits for cancelled runs to end.
	closeRuns = 30 * time.Second
	// closeAgent is how long it waits for an agent, and its runtime, to be closed.
	// It does not come to that where the agent sees to its own time.
	closeAgent = 3 * time.Minute
	// closingAtOnce is how many agents are closed side by side: removing a
	// container takes an engine a while.
	closingAtOnce = 16
)

func (x *localExecutor) close() error {
	x.cancelAll()
	if !waitAtMost(closeRuns, &x.wg) {
		x.abandonAll()
	}
	err := x.closeAll()
	if !waitAtMost(closeAgent, &x.rest) {
		err = errors.Join(err, fmt.Errorf("the removal of a task %w", ErrLeftBehind))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(err, x.failed)
}

// cancelAll ends all runs, those that wait for room as well. From then on the
// table does not change.
func (x *localExecutor) cancelAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	closing := &taskCancelled{reason: ErrTaskManagerClosed.Error()}
	x.end(closing)
	for _, t := range x.tasks {
		t.stop(closing)
	}
	for _, next := range x.queue {
		next() // finds that it is not wanted any more
	}
	x.queue = nil
}

// abandonAll lets go of the tasks whose runs do not end.
func (x *localExecutor) abandonAll() {
	for id, t := range x.tasks {
		if t.abandon() {
			x.note(taskError(id, fmt.Errorf("its run %w", ErrLeftBehind)))
		}
	}
}

// closeAll closes the agents of all tasks.
func (x *localExecutor) closeAll() error {
	var wg sync.WaitGroup
	room := make(chan struct{}, closingAtOnce)
	var mu sync.Mutex
	var all error
	for id, t := range x.tasks {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := t.close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				all = errors.Join(all, taskError(id, err))
			}
		})
	}
	wg.Wait()
	return all
}

// waitAtMost waits for a group, and reports whether it ended in time.
func waitAtMost(limit time.Duration, group *sync.WaitGroup) bool {
	return within(limit, func() error { group.Wait(); return nil }) == nil
}
