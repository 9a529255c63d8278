package taskpool

import (
	"slices"
	"sync"
)

// Ledger is the records of tasks. The zero Ledger is empty and ready to use. It
// is safe for concurrent use.
type Ledger[V any] struct {
	mu      sync.Mutex
	records map[string]*Record[V]
	closed  bool
}

// Record is what a ledger knows about a task.
type Record[V any] struct {
	ID    string
	Up    *Record[V] // of the task that delegated this one; nil when none did
	Value V

	started  chan struct{} // closed when the start is over
	startErr error         // of the start; set before started is closed

	// Guarded by the ledger's mu.
	children []string      // the tasks that it delegated
	handled  int64         // the last event of a task that came to rest
	changed  chan struct{} // closed when handled or followed change; nil while nobody waits
	followed bool          // a follower is at work
}

// NewRecord returns the record of a task that is being started.
func NewRecord[V any](id string, up *Record[V], value V) *Record[V] {
	return &Record[V]{ID: id, Up: up, Value: value, started: make(chan struct{})}
}

// Claim adds r, unless there is a record with its id: then it returns that one.
func (l *Ledger[V]) Claim(r *Record[V]) (other *Record[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.records[r.ID]; other != nil {
		return other
	}
	if l.records == nil {
		l.records = map[string]*Record[V]{}
	}
	l.records[r.ID] = r
	if r.Up != nil {
		r.Up.children = append(r.Up.children, r.ID)
	}
	return nil
}

// EndStart ends the start of a task. If the start failed, the record is
// removed.
func (l *Ledger[V]) EndStart(r *Record[V], err error) {
	if err != nil {
		l.Forget(r)
	}
	r.startErr = err
	close(r.started)
}

// Started is closed when the start of the task has ended.
func (r *Record[V]) Started() <-chan struct{} { return r.started }

// StartError is the error of a start that has ended.
func (r *Record[V]) StartError() error { return r.startErr }

// Record returns the record of a task, or nil.
func (l *Ledger[V]) Record(id string) *Record[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[id]
}

// Records returns all records in no particular order.
func (l *Ledger[V]) Records() []*Record[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Record[V], 0, len(l.records))
	for _, r := range l.records {
		all = append(all, r)
	}
	return all
}

// Children returns the tasks that a task delegated.
func (l *Ledger[V]) Children(r *Record[V]) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(r.children)
}

// Forget removes the record of a task that was not started, or was removed. It
// keeps another record with the same id.
func (l *Ledger[V]) Forget(r *Record[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == nil || l.records[r.ID] != r {
		return
	}
	r.wake()
	delete(l.records, r.ID)
	if r.Up == nil {
		return
	}
	// It is usually the newest, and so found at once.
	siblings := r.Up.children
	for i := len(siblings) - 1; i >= 0; i-- {
		if siblings[i] == r.ID {
			r.Up.children = append(siblings[:i:i], siblings[i+1:]...)
			break
		}
	}
}

// Follow has read handle the events of a task until there are no more. It calls
// start to start a goroutine for that, once for each task.
func (l *Ledger[V]) Follow(id string, start func(func()), read func(*Record[V])) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.records[id]
	if r == nil || r.followed || l.closed { // at Close all that has to be followed is
		return
	}
	r.followed = true
	start(func() {
		read(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		r.followed = false
		r.wake()
	})
}

// Handled records that all events were handled up to number seq, with which a
// task came to rest.
func (l *Ledger[V]) Handled(r *Record[V], seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.handled = seq
	r.wake()
}

// wake makes those who wait check again. The caller holds the ledger's mu.
func (r *Record[V]) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Unhandled returns nil if the events of a task were handled up to number seq,
// or will never be. Otherwise it returns a channel that is closed when it is
// time to ask again.
func (l *Ledger[V]) Unhandled(id string, seq int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.records[id]
	if r == nil || r.handled >= seq || l.closed && !r.followed {
		return nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// Close prevents new followers.
func (l *Ledger[V]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
