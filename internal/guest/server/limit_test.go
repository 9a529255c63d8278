package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeLimitsStandStillWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		over := make(chan time.Duration, 1)
		l := newTimeLimit(time.Second, func() { over <- time.Since(begun) })
		time.Sleep(400 * time.Millisecond)
		l.pause()
		l.pause()
		time.Sleep(time.Hour)
		l.resume()
		l.resume()
		require.Equal(t, time.Hour+time.Second, <-over)
		l.pause()
		l.resume()
		time.Sleep(time.Hour)
		require.Empty(t, over, "a limit ends once")

		l = newTimeLimit(time.Second, func() { over <- 0 })
		l.pause()
		l.end()
		l.resume()
		time.Sleep(time.Hour)
		require.Empty(t, over)
		none := newTimeLimit(0, func() { over <- 0 })
		none.pause()
		none.resume()
		time.Sleep(time.Hour)
		require.Empty(t, over)
	})
}
