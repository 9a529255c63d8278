package eventqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/eventqueue"
)

func newReplay(most, bytes int) *eventqueue.Replay[string] {
	join := func(last, next string) (string, bool) { return last + next, true }
	return eventqueue.NewReplay(most, bytes, join, func(s string) int { return len(s) })
}

// collect returns what a follower gets until the end.
func collect(r *eventqueue.Replay[string], after int64) (got []string, err error) {
	for v, e := range r.Follow(context.Background(), after) {
		if e != nil {
			return got, e
		}
		got = append(got, v)
	}
	return got, nil
}

func TestReplayKeepsTheLastValues(t *testing.T) {
	r := newReplay(3, 100)
	for i := range int64(5) {
		r.Put(i+1, fmt.Sprint(i+1))
	}
	r.End()
	for after, want := range map[int64][]string{2: {"3", "4", "5"}, 4: {"5"}, 5: nil} {
		got, err := collect(r, after)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, after := range []int64{0, 1, 6, -1} {
		_, err := collect(r, after)
		require.ErrorIs(t, err, eventqueue.ErrGone, "%d", after)
	}
}

func TestReplayKeepsBytesInBounds(t *testing.T) {
	r := newReplay(100, 10)
	r.Put(1, "12345")
	r.Put(2, "12345")
	r.Put(3, "1")
	r.Put(4, strings.Repeat("x", 50)) // the last value is kept, however large
	r.End()
	_, err := collect(r, 2)
	require.ErrorIs(t, err, eventqueue.ErrGone)
	got, err := collect(r, 3)
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestReplayGrows(t *testing.T) {
	r := newReplay(1, 1)
	r.Grow(3, 100)
	r.Grow(2, 1)
	for i := range int64(3) {
		r.Put(i+1, "value")
	}
	r.End()
	got, err := collect(r, 0)
	require.NoError(t, err)
	require.Len(t, got, 3)
}

func TestPiecesAreMergedWhileTheyWaitAndNeverPassAValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplay(10, 100)
		r.Offer(1, "lost, since nobody follows")
		var got []string
		goOn := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for v, err := range r.Follow(t.Context(), 1) {
				if err != nil {
					return
				}
				got = append(got, v)
				<-goOn
			}
		})
		synctest.Wait()
		r.Put(2, "A")
		synctest.Wait() // it has A, and waits
		r.Offer(3, "b")
		r.Offer(4, "c")
		r.Put(5, "D")
		r.Offer(6, "e")
		r.End()
		close(goOn)
		wg.Wait()
		require.Equal(t, []string{"A", "bc", "D", "e"}, got)
	})
}

func TestSlowFollowerLosesPiecesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplay(4, 1<<30)
		var got []string
		var last error
		goOn := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for v, err := range r.Follow(t.Context(), 0) {
				got, last = append(got, v), err
				<-goOn
			}
		})
		synctest.Wait()
		r.Put(1, "A")
		synctest.Wait()
		for i := range int64(1000) {
			r.Offer(2+i, strings.Repeat("x", 16<<10))
		}
		r.Put(2000, "B")
		close(goOn)
		synctest.Wait()
		require.NoError(t, last)
		require.Len(t, got, 1+64+1)
		require.Equal(t, "B", got[len(got)-1])
		r.End()
		wg.Wait()
	})
}

func TestFollowerThatIsTooSlowIsTold(t *testing.T) {
	r := newReplay(2, 100)
	r.Put(1, "1")
	var got []string
	for v, err := range r.Follow(t.Context(), 0) {
		if err != nil {
			require.ErrorIs(t, err, eventqueue.ErrGone)
			got = append(got, "gone")
			break
		}
		got = append(got, v)
		for i := range int64(5) {
			r.Put(i+2, "more")
		}
	}
	require.Equal(t, []string{"1", "gone"}, got)
}

func TestFollowStopsWithItsContext(t *testing.T) {
	r := newReplay(2, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.Put(1, "1")
	n := 0
	for range r.Follow(ctx, 0) {
		n++
		cancel()
	}
	require.Equal(t, 1, n)
}

func TestFollowersGetEachValueOnceAndInOrder(t *testing.T) {
	r := newReplay(1<<20, 1<<30)
	var wg sync.WaitGroup
	const values = 2000
	for range 8 {
		wg.Go(func() {
			got, err := collect(r, 0)
			if err != nil || len(got) != values {
				t.Errorf("%d values: %v", len(got), err)
			}
			for i, v := range got {
				if v != fmt.Sprint(i+1) {
					t.Errorf("value %d is %s", i+1, v)
					return
				}
			}
		})
	}
	for i := range int64(values) {
		r.Put(i+1, fmt.Sprint(i+1))
	}
	r.End()
	wg.Wait()
}
