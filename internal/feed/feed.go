// Package feed passes values to a function, one at a time and in order, without
// ever blocking the sender.
package feed

import "sync"

// maxWaiting is how many values may wait before those that may be lost are
// dropped.
const maxWaiting = 4096

// Feed hands values to a function. The function may call anything, the feed
// itself included: no lock is held meanwhile. Make one with [New]. It is safe
// for concurrent use.
//
// A goroutine calls the function. It exists only while there are values, and
// [Feed.Handled] waits for it.
type Feed[T any] struct {
	handle func(T)
	merge  func(last, next T) (T, bool)

	mu      sync.Mutex // guards what follows
	waiting []item[T]  // what handle was not called with yet
	working bool       // the goroutine exists
}

// item is a value, or a mark that has none.
type item[T any] struct {
	value   T
	mark    bool
	mayLose bool          // and may be merged with the next one
	handled chan struct{} // closed afterwards; nil where nobody can wait
}

// New returns a feed of handle. merge joins two values that may be lost, and
// reports false for two that do not belong together.
func New[T any](handle func(T), merge func(last, next T) (T, bool)) *Feed[T] {
	return &Feed[T]{handle: handle, merge: merge}
}

// Put hands over a value. The channel is closed once the function has returned.
func (f *Feed[T]) Put(value T) (handled <-chan struct{}) {
	return f.put(item[T]{value: value, handled: make(chan struct{})})
}

// Handled returns a channel that is closed once all values put so far were
// handed over and the function has returned.
func (f *Feed[T]) Handled() <-chan struct{} {
	return f.put(item[T]{mark: true, handled: make(chan struct{})})
}

// Offer hands over a value that may be merged with the one before it, and is
// dropped when too many wait.
func (f *Feed[T]) Offer(value T) {
	f.put(item[T]{value: value, mayLose: true})
}

func (f *Feed[T]) put(it item[T]) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it.mayLose && f.spare(it.value) {
		return nil
	}
	f.waiting = append(f.waiting, it)
	if !f.working {
		f.working = true
		go f.work()
	}
	return it.handled
}

// spare reports whether a value need not wait on its own, because it was merged
// with the last one or dropped. The caller holds mu.
func (f *Feed[T]) spare(value T) bool {
	n := len(f.waiting)
	if n > 0 && f.waiting[n-1].mayLose {
		if merged, ok := f.merge(f.waiting[n-1].value, value); ok {
			f.waiting[n-1].value = merged
			return true
		}
	}
	return n >= maxWaiting
}

// work hands out values until none waits. If handle ends the goroutine, as the
// FailNow of a test does, a new goroutine continues.
func (f *Feed[T]) work() {
	done := false
	defer func() {
		if !done {
			go f.work()
		}
	}()
	for {
		it, ok := f.next()
		if !ok {
			done = true
			return
		}
		f.hand(it)
	}
}

func (f *Feed[T]) next() (it item[T], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.waiting, f.working = nil, false
		return it, false
	}
	it, f.waiting = f.waiting[0], f.waiting[1:]
	return it, true
}

func (f *Feed[T]) hand(it item[T]) {
	if it.handled != nil {
		defer close(it.handled)
	}
	if !it.mark {
		f.handle(it.value)
	}
}
