package taskpool_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

type event struct {
	seq   int64
	worth taskpool.Worth
	size  int
}

func newLog(most int) *taskpool.Log[event] {
	return taskpool.NewLog(taskpool.Kind[event]{
		Most: most, MostBytes: 100,
		Number: func(e event, seq int64) event { e.seq = seq; return e },
		Worth:  func(e event) taskpool.Worth { return e.worth },
		Size:   func(e event) int { return e.size },
	})
}

func TestLargeEventsMakeRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		events []event
		want   []int64
	}{
		"all fit":                    {[]event{{size: 50, worth: 1}, {size: 50, worth: 1}}, []int64{1, 2}},
		"down to three quarters":     {[]event{{size: 40, worth: 1}, {size: 20, worth: 1}, {size: 20, worth: 1}, {size: 30, worth: 1}}, []int64{2, 3, 4}},
		"what is worth less first":   {[]event{{size: 40, worth: 2}, {size: 20}, {size: 30, worth: 1}, {size: 20, worth: 1}}, []int64{1, 4}},
		"the last one in any case":   {[]event{{size: 40, worth: 1}, {size: 1000}}, []int64{2}},
		"but not for what lasts":     {[]event{{size: 40, worth: 2}, {size: 20, worth: 1}, {size: 1000, worth: 1}, {size: 40, worth: 2}}, []int64{1, 4}},
		"until another one comes":    {[]event{{size: 1000, worth: 2}, {size: 1}}, []int64{2}},
		"and the room is used again": {[]event{{size: 101, worth: 1}, {size: 50, worth: 1}, {size: 50, worth: 1}}, []int64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(100)
			for _, e := range tt.events {
				l.Append(e)
			}
			l.End()
			var kept []int64
			for e := range l.Follow(t.Context(), 0) {
				kept = append(kept, e.seq)
			}
			require.Equal(t, tt.want, kept)
		})
	}
}

func TestWhatIsWorthLessGoesFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		worths []taskpool.Worth
		want   []int64
	}{
		"all kept":             {[]taskpool.Worth{0, 1, 2, 0}, []int64{1, 2, 3, 4}},
		"every fleeting one":   {[]taskpool.Worth{0, 1, 0, 2, 1}, []int64{2, 4, 5}},
		"the oldest ordinary":  {[]taskpool.Worth{2, 1, 1, 2, 0}, []int64{1, 3, 4, 5}},
		"the oldest lasting":   {[]taskpool.Worth{2, 2, 2, 2, 0}, []int64{2, 3, 4, 5}},
		"not more than needed": {[]taskpool.Worth{1, 1, 1, 1, 1}, []int64{2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(4)
			for i, worth := range tt.worths {
				require.EqualValues(t, i+1, l.Append(event{worth: worth}))
			}
			l.End()
			var kept []int64
			for e := range l.Follow(t.Context(), 0) {
				kept = append(kept, e.seq)
			}
			require.Equal(t, tt.want, kept)
			require.EqualValues(t, len(tt.worths), l.Last())
		})
	}
}

func TestFollowWaitsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(4)
		done := make(chan []event, 1)
		go func() { done <- slices.Collect(l.Follow(t.Context(), 1)) }()
		l.Append(event{})
		synctest.Wait()
		l.Append(event{})
		synctest.Wait()
		require.Empty(t, done, "there may be more")
		l.Append(event{})
		l.End()
		require.Equal(t, []event{{seq: 2}, {seq: 3}}, <-done)
	})
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLog(4)
	l.Append(event{})
	require.Len(t, slices.Collect(l.Follow(ctx, 0)), 1)
}
