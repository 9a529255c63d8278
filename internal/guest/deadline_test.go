package guest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Int64
		w := newWatch(time.Second, func() { expired.Add(1) })
		time.Sleep(900 * time.Millisecond)
		w.restart()
		time.Sleep(900 * time.Millisecond)
		w.pause()
		time.Sleep(time.Hour)
		require.Zero(t, expired.Load())
		w.restart()
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, expired.Load())
		w.stop()
	})
}

// TestWatchDoesNotCountTimeInWhichWeWereStopped uses a timer that fires late,
// as all timers do when a stopped process continues.
func TestWatchDoesNotCountTimeInWhichWeWereStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Int64
		w := newWatch(time.Second, func() { expired.Add(1) })
		w.mu.Lock()
		w.due = w.due.Add(-time.Minute)
		w.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, expired.Load(), "what came meanwhile has yet to be read")
		time.Sleep(lateness)
		synctest.Wait()
		require.EqualValues(t, 1, expired.Load())
	})
}
