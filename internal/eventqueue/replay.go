package eventqueue

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
)

// ErrGone is the error of following values that are no longer kept, or never
// were there.
var ErrGone = errors.New("these events are no longer kept: read the conversation, and subscribe after the present state")

// The bounds of what waits for a follower that is slow. What is beyond is
// dropped, if it may be lost, and otherwise kept in the Replay as long as that
// has room.
const (
	maxPieces     = 64
	maxMergedSize = 16 << 10
)

// Replay keeps the last values, and hands them and those that come to any number
// of followers, each at its own pace. A writer never waits. Values have rising
// numbers, which the writer gives; values that may be lost are not kept for
// those who follow later. Make one with [NewReplay]. It is safe for concurrent
// use.
type Replay[T any] struct {
	merge func(last, next T) (T, bool)
	size  func(T) int

	mu        sync.Mutex // guards what follows
	most      int        // how many values are kept
	mostBytes int        // and how many bytes of them, but always one value
	array     []numbered[T]
	start     int // where the values that are kept begin in array
	bytes     int
	gone      int64 // the number of the last value that was kept once
	last      int64 // the number of the last value
	followers []*follower[T]
	wanted    bool // somebody follows, or may do so
	ended     bool
}

type numbered[T any] struct {
	seq   int64
	size  int
	value T
}

// follower is one loop over values. The mutex of its Replay guards it, except
// wake.
type follower[T any] struct {
	after  int64         // the number of the last value it got
	pieces []numbered[T] // values that may be lost, which wait for it
	closed bool          // the last piece must not grow, since a value came after it
	wake   chan struct{} // has a value when something changed
}

// NewReplay returns a Replay of the given bounds. merge is as for [New]. size
// estimates the bytes of a value.
func NewReplay[T any](most, mostBytes int, merge func(last, next T) (T, bool), size func(T) int) *Replay[T] {
	return &Replay[T]{merge: merge, size: size, most: most, mostBytes: mostBytes}
}

// Grow raises the bounds, for a follower who may come at any time from now on.
func (r *Replay[T]) Grow(most, mostBytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	r.most, r.mostBytes = max(r.most, most), max(r.mostBytes, mostBytes)
}

// Put keeps a value and hands it to the followers.
func (r *Replay[T]) Put(seq int64, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = seq
	n := numbered[T]{seq, r.size(value), value}
	r.makeRoom(n.size)
	r.array = append(r.array, n)
	r.bytes += n.size
	for _, f := range r.followers {
		f.closed = true
		f.notify()
	}
}

// makeRoom drops the oldest values until one of the given size fits.
func (r *Replay[T]) makeRoom(size int) {
	for kept := r.kept(); len(kept) > 0 && (len(kept) >= r.most || r.bytes+size > r.mostBytes); kept = r.kept() {
		r.bytes -= kept[0].size
		r.gone = kept[0].seq
		kept[0] = numbered[T]{}
		r.start++
	}
	if len(r.array) == cap(r.array) && r.start >= len(r.array)/2 { // use the array again, so that a value costs no allocation
		n := copy(r.array, r.kept())
		clear(r.array[n:])
		r.array, r.start = r.array[:n], 0
	}
}

// kept returns the values that are kept. The caller holds mu.
func (r *Replay[T]) kept() []numbered[T] { return r.array[r.start:] }

// Offer hands a value to those who follow now. It may be merged with the one
// before it, and is dropped for a follower for whom too many wait.
func (r *Replay[T]) Offer(seq int64, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = seq
	for _, f := range r.followers {
		r.offer(f, numbered[T]{seq, r.size(value), value})
		f.notify()
	}
}

func (r *Replay[T]) offer(f *follower[T], n numbered[T]) {
	if at := len(f.pieces) - 1; at >= 0 && !f.closed && f.pieces[at].size+n.size <= maxMergedSize {
		if merged, ok := r.merge(f.pieces[at].value, n.value); ok {
			f.pieces[at] = numbered[T]{n.seq, r.size(merged), merged}
			return
		}
	}
	if len(f.pieces) < maxPieces {
		f.pieces, f.closed = append(f.pieces, n), false
	}
}

func (f *follower[T]) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// End lets the followers stop when they have got all values.
func (r *Replay[T]) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, f := range r.followers {
		f.notify()
	}
}

// Follow yields the values with numbers above after, first those that are kept
// and then those that come, until ctx ends, or [Replay.End] was called and all
// are read. It yields [ErrGone] and stops when a value that is not lossy is no
// longer kept, also when the loop is too slow, and when after is the number of
// no value yet.
func (r *Replay[T]) Follow(ctx context.Context, after int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		f := r.join(after)
		defer r.leave(f)
		for ctx.Err() == nil {
			value, what := r.next(f)
			switch what {
			case noneYet:
				select {
				case <-f.wake:
				case <-ctx.Done():
				}
			case one:
				if !yield(value, nil) {
					return
				}
			case noMore:
				return
			case tooLate:
				yield(value, ErrGone)
				return
			}
		}
	}
}

func (r *Replay[T]) join(after int64) *follower[T] {
	f := &follower[T]{after: after, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers = append(r.followers, f)
	return f
}

func (r *Replay[T]) leave(f *follower[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers = slices.DeleteFunc(r.followers, func(g *follower[T]) bool { return g == f })
}

// Wanted reports whether somebody follows, or has followed and may do so again.
func (r *Replay[T]) Wanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted
}

// What next found.
const (
	noneYet = iota
	one
	noMore
	tooLate
)

// next returns the value with the lowest number that the follower has not got.
func (r *Replay[T]) next(f *follower[T]) (value T, what int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.after < r.gone || f.after > r.last {
		return value, tooLate
	}
	kept := r.kept()
	at, _ := slices.BinarySearchFunc(kept, f.after+1, func(n numbered[T], seq int64) int { return int(n.seq - seq) })
	switch {
	case len(f.pieces) > 0 && (at == len(kept) || f.pieces[0].seq < kept[at].seq):
		value, f.after = f.pieces[0].value, f.pieces[0].seq
		f.pieces = slices.Delete(f.pieces, 0, 1)
	case at < len(kept):
		value, f.after = kept[at].value, kept[at].seq
	case r.ended:
		return value, noMore
	default:
		return value, noneYet
	}
	return value, one
}
