package eventqueue

import "context"

// Stream passes the values of a feed to a loop that takes them one by one. A
// value counts as handled when the loop asks for the next one, so whoever waits
// for that keeps in step with the loop. Make one with [NewStream]. Only the
// loop's goroutine may use it, except for its feed.
type Stream[T any] struct {
	feed   *Feed[T]
	values chan T
	asked  chan struct{} // the loop is done with the value it got
	left   chan struct{} // closed when the loop was left
	busy   bool          // the loop has a value
}

// NewStream returns a stream. merge is that of its feed.
func NewStream[T any](merge func(last, next T) (T, bool)) *Stream[T] {
	s := &Stream[T]{values: make(chan T), asked: make(chan struct{}), left: make(chan struct{})}
	s.feed = New(s.give, merge)
	return s
}

// Feed returns the feed to put values into.
func (s *Stream[T]) Feed() *Feed[T] { return s.feed }

// give is the function of the feed.
func (s *Stream[T]) give(v T) {
	select {
	case s.values <- v:
	case <-s.left:
		return
	}
	select {
	case <-s.asked:
	case <-s.left:
	}
}

// Next returns the next value. It returns false when ended is closed, after
// which no values are put in, and all values were taken.
func (s *Stream[T]) Next(ended <-chan struct{}) (value T, ok bool) {
	if s.busy {
		s.asked <- struct{}{}
		s.busy = false
	}
	var none <-chan struct{} // closed when no more values come
	for {
		select {
		case value = <-s.values:
			s.busy = true
			return value, true
		case <-ended:
			ended, none = nil, s.feed.Handled()
		case <-none:
			return value, false
		}
	}
}

// Leave has the feed drop its values. Call it when the loop is left.
func (s *Stream[T]) Leave() { close(s.left) }

// Await waits until all channels, which [Feed.Put] returned, are closed. It
// returns false if done is closed before.
func Await(all []<-chan struct{}, done <-chan struct{}) bool {
	for _, one := range all {
		select {
		case <-one:
		case <-done:
			return false
		}
	}
	return true
}

// Drive calls run in a goroutine, with a feed for its values, and yield with each of them
// until yield returns false, which ends the context of run. run advances only when yield has
// returned. Drive waits for the end of run, and returns its error unless yield ended it.
func Drive[T any](ctx context.Context, merge func(last, next T) (T, bool), run func(context.Context, *Feed[T]) error, yield func(T) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	s := NewStream(merge)
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = run(ctx, s.Feed())
	}()
	defer func() {
		cancel()
		s.Leave()
		<-ended
		<-s.Feed().Handled()
	}()
	for {
		value, ok := s.Next(ended)
		if !ok {
			return err
		}
		if !yield(value) {
			return nil
		}
	}
}
