package taskpool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

func isGone(gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p taskpool.Presence
		_, here := p.Here()
		require.False(t, here)
		p.Leave() // nobody
		p.Come()
		gone, here := p.Here()
		require.True(t, here)
		p.LeaveAfter(time.Minute)
		time.Sleep(59 * time.Second)
		p.Come()
		time.Sleep(time.Minute)
		require.False(t, isGone(gone), "they came back in time")
		p.LeaveAfter(time.Minute)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, isGone(gone))
		_, here = p.Here()
		require.False(t, here)
		p.Come()
		gone, _ = p.Here()
		require.False(t, isGone(gone))
		p.LeaveAfter(time.Minute)
		p.Leave()
		require.True(t, isGone(gone))
		p.Come()
		time.Sleep(time.Hour)
		_, here = p.Here()
		require.True(t, here, "no old time is over")
	})
}
