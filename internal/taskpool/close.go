package taskpool

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limits of what Close waits for, so that nothing can block it for ever.
const (
	// closeRuns is how long it waits for cancelled runs to end.
	closeRuns = 30 * time.Second
	// closeRemovals is how long it waits for removals that go on.
	closeRemovals = 3 * time.Minute
	// closingAtOnce is how many tasks are closed in parallel, since an engine
	// takes a while to remove a container.
	closingAtOnce = 16
)

// Remove forgets a task at rest and closes it. The channel gets the error of
// closing. If ctx ends before, Close returns that error.
func (c *Crew[T, G, M]) Remove(ctx context.Context, id string, named func(error) error) (closed <-chan error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	switch {
	case !ok:
		return nil, ErrUnknown
	case c.closed:
		return nil, ErrClosed
	case !m.task.AtRest():
		return nil, ErrRunning
	}
	delete(c.members, id)
	done := make(chan error)
	c.rest.Go(func() {
		err := m.task.Close()
		select {
		case done <- err:
		case <-ctx.Done():
			c.note(named(err))
		}
	})
	return done, nil
}

// note keeps an error for Close to return.
func (c *Crew[T, G, M]) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
}

// Left is what [Crew.Close] left behind.
type Left struct {
	Runs     []string // the tasks whose runs did not end in time
	Removals bool     // some removal did not
}

// Close cancels all tasks with the given cause, waits for them for a limited
// time, and closes them. named adds the name of a task to its error.
func (c *Crew[T, G, M]) Close(cause error, named func(id string, err error) error) (left Left, err error) {
	c.cancelAll(cause)
	if !WaitAtMost(closeRuns, &c.runs) {
		left.Runs = c.abandonAll()
	}
	err = c.closeAll(named)
	left.Removals = !WaitAtMost(closeRemovals, &c.rest)
	c.mu.Lock()
	defer c.mu.Unlock()
	return left, errors.Join(err, c.failed)
}

// cancelAll ends all runs, those that wait for room as well. From then on the
// table of tasks does not change.
func (c *Crew[T, G, M]) cancelAll(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.end(cause)
	for _, m := range c.members {
		c.stop(m, cause)
	}
	c.queue = nil
}

// abandonAll gives up the tasks whose runs do not end, and returns their ids.
func (c *Crew[T, G, M]) abandonAll() (ids []string) {
	for id, m := range c.members {
		if m.task.Abandon() {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *Crew[T, G, M]) closeAll(named func(id string, err error) error) error {
	var wg sync.WaitGroup
	room := make(chan struct{}, closingAtOnce)
	var mu sync.Mutex
	var all error
	for id, m := range c.members {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := m.task.Close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				all = errors.Join(all, named(id, err))
			}
		})
	}
	wg.Wait()
	return all
}

// WaitAtMost waits for a group, and reports whether it finished in time. If
// not, a goroutine continues to wait.
func WaitAtMost(limit time.Duration, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
