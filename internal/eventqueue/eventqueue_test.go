package eventqueue

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func join(last, next string) (string, bool) {
	return last + next, !strings.HasPrefix(next, "#")
}

// held returns a feed that is blocked in its function, with its first value,
// until free is closed.
func held(t *testing.T) (f *Feed[string], seen *[]string, free chan struct{}) {
	free, seen = make(chan struct{}), new([]string)
	begun := make(chan struct{})
	f = New(func(v string) {
		if v == "first" {
			close(begun)
			<-free
		}
		*seen = append(*seen, v)
	}, join)
	f.Put("first")
	<-begun
	return f, seen, free
}

func TestValuesComeInOrderAndOneAtATime(t *testing.T) {
	var seen []int
	f := New(func(v int) { seen = append(seen, v) }, nil)
	for i := range 1000 {
		f.Put(i)
	}
	<-f.Handled()
	require.Len(t, seen, 1000)
	for i, v := range seen {
		require.Equal(t, i, v)
	}
}

func TestPutTellsWhenTheValueWasHandled(t *testing.T) {
	f, seen, free := held(t)
	second := f.Put("second")
	select {
	case <-second:
		t.Fatal("the first is not done")
	default:
	}
	close(free)
	<-second
	require.Equal(t, []string{"first", "second"}, *seen)
}

func TestWaitingOffersAreMerged(t *testing.T) {
	f, seen, free := held(t)
	for _, v := range []string{"a", "b", "#c", "d"} {
		f.Offer(v)
	}
	f.Put("put")
	f.Offer("e")
	close(free)
	<-f.Handled()
	require.Equal(t, []string{"first", "ab", "#cd", "put", "e"}, *seen)
}

func TestOffersAreDroppedWhenTooManyWait(t *testing.T) {
	f, seen, free := held(t)
	for range maxWaiting {
		f.Put("put")
	}
	f.Offer("dropped")
	last := f.Put("last")
	close(free)
	<-last
	require.Len(t, *seen, maxWaiting+2)
	require.NotContains(t, *seen, "dropped")
}

func TestTheFunctionMayUseTheFeed(t *testing.T) {
	var f *Feed[int]
	var seen []int
	var third <-chan struct{}
	f = New(func(v int) {
		seen = append(seen, v)
		if v < 3 {
			third = f.Put(v + 1)
		}
	}, nil)
	<-f.Put(1)
	<-f.Handled() // of value 2, at which the function puts 3
	<-third
	require.Equal(t, []int{1, 2, 3}, seen)
}

func TestAFunctionThatEndsItsGoroutineEndsNothingElse(t *testing.T) {
	var seen []int
	f := New(func(v int) {
		seen = append(seen, v)
		if v == 1 {
			runtime.Goexit()
		}
	}, nil)
	first := f.Put(1)
	<-f.Put(2)
	<-first
	require.Equal(t, []int{1, 2}, seen)
}

func TestAHeldFeedKeepsItsGoroutine(t *testing.T) {
	begun, n := 0, 0
	f := New(func(int) { n++ }, nil)
	f.Begin(func() { begun++ })
	release := f.Hold()
	for i := range 100 {
		<-f.Put(i)
	}
	<-f.Handled()
	require.Equal(t, 1, begun)
	release() // goleak sees that it ends
	for i := range 100 {
		<-f.Put(i)
	}
	<-f.Handled()
	require.Equal(t, 200, n)
}

func TestAHeldFeedSurvivesItsFunction(t *testing.T) {
	begun := 0
	f := New(func(int) { runtime.Goexit() }, nil)
	f.Begin(func() { begun++ })
	defer f.Hold()()
	<-f.Put(1)
	<-f.Put(2)
	<-f.Handled()
	require.Equal(t, 3, begun, "each goroutine says that it begins")
}

func TestManyMayPut(t *testing.T) {
	n := 0
	f := New(func(int) { n++ }, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				<-f.Put(i)
			}
		})
	}
	all.Wait()
	<-f.Handled()
	require.Equal(t, 800, n)
}

// inStep puts values into a stream, each after the one before was handled. It
// returns a channel of the values that it has put, and one that is closed at
// the end.
func inStep(s *Stream[string], values ...string) (put <-chan string, ended chan struct{}) {
	done := make(chan string, len(values))
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for _, v := range values {
			handled := s.Feed().Put(v)
			done <- v
			<-handled
		}
	}()
	return done, ended
}

func TestAStreamGoesInStepWithItsLoop(t *testing.T) {
	s := NewStream(join)
	put, ended := inStep(s, "a", "b")
	for _, want := range []string{"a", "b"} {
		v, ok := s.Next(ended)
		require.True(t, ok)
		require.Equal(t, want, v)
		require.Equal(t, want, <-put)
		require.Empty(t, put, "the next one waits for the loop")
	}
	_, ok := s.Next(ended)
	require.False(t, ok)
}

func TestAStreamEndsWhenAllIsTaken(t *testing.T) {
	s := NewStream(join)
	ended := make(chan struct{})
	s.Feed().Offer("a")
	s.Feed().Put("b")
	close(ended)
	var seen []string
	for v, ok := s.Next(ended); ok; v, ok = s.Next(ended) {
		seen = append(seen, v)
	}
	require.Equal(t, []string{"a", "b"}, seen)
}

func TestAStreamThatWasLeftHoldsNothingUp(t *testing.T) {
	s := NewStream(join)
	_, ended := inStep(s, "a", "b", "c")
	_, ok := s.Next(ended)
	require.True(t, ok)
	s.Leave()
	<-ended
	<-s.Feed().Handled()
}

func TestWaitingEndsWithPatience(t *testing.T) {
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	require.True(t, Await(nil, nil))
	require.True(t, Await([]<-chan struct{}{closed}, nil))
	require.False(t, Await([]<-chan struct{}{closed, open}, closed))
}
