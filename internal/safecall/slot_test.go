package safecall_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/safecall"
)

func TestSlotRefusesRuns(t *testing.T) {
	noContext, taken, closed := errors.New("no context"), errors.New("taken"), errors.New("closed")
	for name, tt := range map[string]struct {
		ctx    context.Context
		before func(*safecall.Slot)
		want   error
	}{
		"none goes on":            {t.Context(), func(*safecall.Slot) {}, nil},
		"one has ended":           {t.Context(), func(s *safecall.Slot) { begun(t, s)() }, nil},
		"one goes on":             {t.Context(), func(s *safecall.Slot) { begun(t, s) }, taken},
		"one was awaited":         {t.Context(), func(s *safecall.Slot) { awaited(t, s) }, taken},
		"no context":              {nil, func(*safecall.Slot) {}, noContext},
		"it is closed":            {t.Context(), func(s *safecall.Slot) { s.Close(nil) }, closed},
		"it is closed within one": {t.Context(), func(s *safecall.Slot) { begun(t, s); s.Close(nil) }, closed},
	} {
		t.Run(name, func(t *testing.T) {
			s := safecall.NewSlot(noContext, taken, closed)
			tt.before(s)
			wasTaken := s.IsTaken()
			_, end, err := s.Begin(tt.ctx)
			require.Equal(t, tt.want, err)
			require.Equal(t, tt.want == closed, s.IsClosed())
			if err != nil {
				require.Nil(t, end)
				require.Equal(t, wasTaken, s.IsTaken(), "a refused run takes nothing")
				return
			}
			require.True(t, s.IsTaken())
			end()
			require.False(t, s.IsTaken())
		})
	}
}

func TestSlotEndsTheContextOfItsRun(t *testing.T) {
	cause := errors.New("cause")
	for name, tt := range map[string]struct {
		end  func(*safecall.Slot)
		want error
	}{
		"interrupted": {func(s *safecall.Slot) { s.Interrupt(cause) }, cause},
		"closed":      {func(s *safecall.Slot) { s.Close(cause) }, cause},
		"not ended":   {func(*safecall.Slot) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := safecall.NewSlot(nil, nil, nil)
			s.Interrupt(errors.New("of no run"))
			ctx, end, err := s.Begin(t.Context())
			require.NoError(t, err)
			tt.end(s)
			require.Equal(t, tt.want, context.Cause(ctx))
			end()
			require.Error(t, ctx.Err())
		})
	}
}

func TestSlotIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := safecall.NewSlot(nil, nil, nil)
		first, end := s.Close(nil)
		require.True(t, first)
		again := make(chan bool, 1)
		go func() {
			first, _ := s.Close(nil)
			again <- first
		}()
		synctest.Wait()
		require.Empty(t, again, "the second waits for the end of the first")
		end()
		require.False(t, <-again)
	})
}

func TestSlotIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := safecall.NewSlot(nil, nil, nil)
		end := begun(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Await(ctx)
		require.ErrorIs(t, err, context.Canceled)
		release := make(chan func(), 1)
		go func() { release <- awaited(t, s) }()
		synctest.Wait()
		require.Empty(t, release)
		end()
		(<-release)()
		begun(t, s)()
	})
}

// begun begins a run and returns what ends it.
func begun(t *testing.T, s *safecall.Slot) (end func()) {
	t.Helper()
	_, end, err := s.Begin(t.Context())
	require.NoError(t, err)
	return end
}

// awaited waits for the end of a run, and returns what lets the next one begin.
func awaited(t *testing.T, s *safecall.Slot) (release func()) {
	t.Helper()
	release, err := s.Await(t.Context())
	require.NoError(t, err)
	return release
}
