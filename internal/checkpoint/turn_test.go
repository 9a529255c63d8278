package checkpoint_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
)

// A busy machine, on which a look at a few files takes seconds, does not end the looks. In a
// large workspace a slow one does, and what is known of the rest of the turn counts.
func TestASlowLookEndsTheLooksOfALargeWorkspace(t *testing.T) {
	t.Parallel()
	command := func(ctx context.Context, turn *checkpoint.Turn) { turn.After(ctx, true, nil) }
	edit := func(ctx context.Context, turn *checkpoint.Turn) { turn.After(ctx, false, []string{"a"}) }
	before := func(ctx context.Context, turn *checkpoint.Turn) { turn.Before(ctx) }
	canceled := func(ctx context.Context, turn *checkpoint.Turn) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		turn.Before(ctx)
	}
	type calls = []func(context.Context, *checkpoint.Turn)
	for name, tt := range map[string]struct {
		large bool
		takes []time.Duration // of the looks; nothing later
		calls calls
		looks int
		end   checkpoint.Work
	}{
		"small and busy":         {false, []time.Duration{4 * time.Second, 4 * time.Second}, calls{before, command, before, edit}, 4, checkpoint.Work{Apart: true}},
		"large and fast":         {true, nil, calls{before, command, before, edit}, 4, checkpoint.Work{Apart: true}},
		"slow before a command":  {true, []time.Duration{4 * time.Second}, calls{before, command, before, command}, 1, checkpoint.Work{Ran: true, Apart: true}},
		"slow before an edit":    {true, []time.Duration{4 * time.Second}, calls{before, command, before, edit, before, command}, 1, checkpoint.Work{Ran: true}},
		"slow after the last":    {true, []time.Duration{0, 4 * time.Second}, calls{before, command, before}, 2, checkpoint.Work{Apart: true}},
		"too slow before an end": {false, []time.Duration{time.Minute}, calls{before, command}, 1, checkpoint.Work{Ran: true, Apart: true}},
		"given up before a call": {false, nil, calls{canceled}, 1, checkpoint.Work{Apart: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				turn := &checkpoint.Turn{
					Look: func(ctx context.Context, _ checkpoint.Workspace, w checkpoint.Work) (bool, error) {
						if looks++; looks <= len(tt.takes) {
							select {
							case <-time.After(tt.takes[looks-1]):
							case <-ctx.Done():
							}
						}
						return tt.large, ctx.Err()
					},
					Apart: true, Working: func(context.Context) bool { return false },
				}
				for _, call := range tt.calls {
					call(t.Context(), turn)
				}
				require.Equal(t, &tt.end, turn.End(t.Context()))
				require.Equal(t, tt.looks, looks)
			})
		})
	}
}

// A workspace with many files is large, and so is one whose files have much in them.
func TestALookSaysThatAWorkspaceIsLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	large := func() bool {
		large, err := b.Look(t.Context(), b.work.open, checkpoint.Work{})
		require.NoError(t, err)
		return large
	}
	b.set("a", "1")
	require.False(t, large())
	b.take(checkpoint.Start)
	for i := range 5001 {
		b.set(fmt.Sprintf("d/%d", i), "1")
	}
	require.True(t, large())
	require.True(t, large(), "nothing has changed since")
}
