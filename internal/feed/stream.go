package feed

// Stream hands the values of a feed to a loop that takes them one by one. The
// feed, and with it whoever waits for its values to be handled, goes in step with
// the loop: a value is handled when the loop asks for the next one. Make one with
// [NewStream]. It belongs to the loop's goroutine, but for its feed.
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

// Feed returns where values are put in.
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

// Next returns the next value. It reports false when ended is closed, after which
// nothing is put in, and all values were taken.
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

// Leave has the feed drop its values, for a loop that was left.
func (s *Stream[T]) Leave() { close(s.left) }

// Await waits until all channels are closed, as those that [Feed.Put] returns. It
// reports false when done was closed before.
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
