package guest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

func TestPausedCommandsHaveNoTimeLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		first, second := c.Pause(), c.Pause()
		first()
		r, err := c.Run(t.Context(), guest.Command{Script: "sleep 1.5; echo done", Timeout: time.Second})
		require.NoError(t, err)
		require.False(t, r.TimedOut)
		require.Equal(t, "done\n", string(r.Head))
		second()
		r, err = c.Run(t.Context(), guest.Command{Script: "sleep 1000", Timeout: 100 * time.Millisecond})
		require.NoError(t, err)
		require.True(t, r.TimedOut)
	})
}

func TestPausedCommandsGoOnWithTheirTime(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		resume := c.Pause()
		done := make(chan guest.Result, 1)
		running := make(chan struct{})
		go func() {
			r, err := c.Run(context.WithoutCancel(t.Context()), guest.Command{
				Script: "echo running; sleep 1000", Timeout: time.Second,
				OnOutput: func(int64, []byte) { close(running) },
			})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		<-running
		resume()
		require.True(t, (<-done).TimedOut)
	})
}
