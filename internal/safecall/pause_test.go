package safecall_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/safecall"
)

var errOver = errors.New("over")

func TestTimeLimitStandsStillWhileTheGateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g safecall.Pausable
		begin := time.Now()
		ctx, cancel := g.WithTimeout(t.Context(), time.Minute, errOver)
		defer cancel()
		end, ok := safecall.Deadline(ctx)
		require.True(t, ok)
		require.Equal(t, begin.Add(time.Minute), end)

		time.Sleep(20 * time.Second)
		open, again := g.Close(), g.Close()
		_, ok = safecall.Deadline(ctx)
		require.False(t, ok)
		time.Sleep(time.Hour)
		again()
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
		open()

		<-ctx.Done()
		require.Equal(t, time.Minute+2*time.Hour, time.Since(begin))
		require.ErrorIs(t, context.Cause(ctx), errOver)
	})
}

func TestTimeLimitThatBeginsWhileTheGateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g safecall.Pausable
		open := g.Close()
		ctx, cancel := g.WithTimeout(t.Context(), time.Second, errOver)
		defer cancel()
		time.Sleep(time.Minute)
		require.NoError(t, ctx.Err())
		open()
		time.Sleep(999 * time.Millisecond)
		require.NoError(t, ctx.Err())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), errOver)
	})
}

func TestContextThatWasCancelledIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g safecall.Pausable
		ctx, cancel := g.WithTimeout(t.Context(), time.Second, errOver)
		cancel()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		g.Close()()
		time.Sleep(time.Minute)
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)

		parent, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		ctx, cancel = g.WithTimeout(parent, time.Hour, errOver)
		defer cancel()
		end, _ := safecall.Deadline(ctx)
		require.Equal(t, time.Now().Add(time.Second), end)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
	})
}
