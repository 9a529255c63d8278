package safecall_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/safecall"
)

func TestALoopRunsUntilItHasEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l safecall.Poller
		l.End() // nothing goes on
		require.False(t, l.Goes())
		calls := 0
		f := func(context.Context) bool { calls++; return calls%3 != 0 }
		for want := 3; want <= 6; want += 3 {
			l.Start(t.Context(), time.Second, f)
			l.Start(t.Context(), time.Second, f) // goes on already
			require.True(t, l.Goes())
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, want, calls)
			require.False(t, l.Goes())
		}
		l.End()
		l.End()
	})
}

func TestEndWaitsForTheCallThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l safecall.Poller
		ended := false
		l.Start(t.Context(), time.Second, func(ctx context.Context) bool {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return true
		})
		time.Sleep(2 * time.Second)
		l.End()
		require.True(t, ended)
	})
}
