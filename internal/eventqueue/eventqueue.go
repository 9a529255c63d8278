// Package eventqueue passes values to a function, one at a time and in order, without
// ever blocking the sender.
package eventqueue

import "sync"

// maxWaiting is how many values may wait before those that may be lost are
// dropped.
const maxWaiting = 4096

// Feed hands values to a function. The function may call anything, the feed
// itself included: no lock is held meanwhile. Make one with [New]. It is safe
// for concurrent use.
//
// A goroutine calls the function. It exists only while there are values, or while
// the feed is held, and [Feed.Handled] waits for it.
type Feed[T any] struct {
	handle func(T)
	merge  func(last, next T) (T, bool)
	begins func() // called by each goroutine first; nil for nothing

	mu      sync.Mutex // guards what follows
	waiting []item[T]  // what handle was not called with yet
	working bool       // the goroutine exists
	holds   int        // how many keep it while nothing waits
	changed *sync.Cond // wakes it when it is kept, and something waits or it is let go
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
	f := &Feed[T]{handle: handle, merge: merge}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// Begin sets a function that each goroutine of the feed calls before the first
// value, such as to learn who it is. Call it before the feed is used.
func (f *Feed[T]) Begin(begins func()) { f.begins = begins }

// Hold keeps the goroutine between values until release is called, for a time in
// which many come: a new one for each would have to grow its stack.
func (f *Feed[T]) Hold() (release func()) {
	f.hold(1)
	return func() { f.hold(-1) }
}

func (f *Feed[T]) hold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds += n
	f.changed.Signal()
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
	f.changed.Signal()
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
	if f.begins != nil {
		f.begins()
	}
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
	for len(f.waiting) == 0 && f.holds > 0 {
		f.changed.Wait()
	}
	if len(f.waiting) == 0 {
		f.waiting, f.working = nil, false
		return it, false
	}
	it, f.waiting[0] = f.waiting[0], item[T]{}
	if len(f.waiting) == 1 { // its place is used again, since most values come alone
		f.waiting = f.waiting[:0]
	} else {
		f.waiting = f.waiting[1:]
	}
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
