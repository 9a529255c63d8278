package guest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := 0
		w := newWatch(time.Second, func() { expired++ })
		time.Sleep(900 * time.Millisecond)
		w.restart()
		time.Sleep(900 * time.Millisecond)
		w.pause()
		time.Sleep(time.Hour)
		require.Zero(t, expired)
		w.restart()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, expired)
		w.stop()
	})
}

// TestWatchDoesNotCountTimeInWhichWeWereStopped has a timer that is late, as all
// are when a process goes on.
func TestWatchDoesNotCountTimeInWhichWeWereStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := 0
		w := newWatch(time.Second, func() { expired++ })
		w.mu.Lock()
		w.due = w.due.Add(-time.Minute)
		w.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, expired, "what came meanwhile has yet to be read")
		time.Sleep(lateness)
		synctest.Wait()
		require.Equal(t, 1, expired)
	})
}
