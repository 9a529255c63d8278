package eventqueue

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDriveYieldsUntilTheRunOrTheLoopEnds(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		puts  int
		fails error
		leave int // the value at which the loop is left
		seen  []int
		want  error
	}{
		"no value":             {0, nil, 0, nil, nil},
		"an error alone":       {0, failed, 0, nil, failed},
		"all values":           {3, nil, 0, []int{1, 2, 3}, nil},
		"values and an error":  {2, failed, 0, []int{1, 2}, failed},
		"left":                 {3, failed, 2, []int{1, 2}, nil},
		"left at the last one": {2, failed, 2, []int{1, 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []int
			ended := false
			err := Drive(t.Context(), nil, func(ctx context.Context, f *Feed[int]) error {
				defer func() { ended = true }()
				for n := 1; n <= tt.puts; n++ {
					handled := f.Put(n)
					if !Await([]<-chan struct{}{handled}, ctx.Done()) {
						return ctx.Err()
					}
					require.Len(t, seen, n, "the run advances when the loop is done with the value")
				}
				if tt.leave > 0 {
					<-ctx.Done() // the loop ends it
				}
				return tt.fails
			}, func(n int) bool {
				seen = append(seen, n)
				return n != tt.leave
			})
			require.Equal(t, tt.want, err)
			require.Equal(t, tt.seen, seen)
			require.True(t, ended, "Drive waits for the run")
		})
	}
}

func TestDriveEndsItsRunWhenTheLoopPanics(t *testing.T) {
	ended := false
	require.PanicsWithValue(t, "oops", func() {
		_ = Drive(t.Context(), nil, func(ctx context.Context, f *Feed[int]) error {
			f.Put(1)
			<-ctx.Done()
			ended = true
			return nil
		}, func(int) bool { panic("oops") })
	})
	require.True(t, ended)
}

func TestDriveMergesWhatWaits(t *testing.T) {
	begun, offered := make(chan struct{}), make(chan struct{})
	var seen []string
	require.NoError(t, Drive(t.Context(), join, func(_ context.Context, f *Feed[string]) error {
		f.Put("first")
		<-begun
		f.Offer("a")
		f.Offer("b")
		close(offered)
		return nil
	}, func(v string) bool {
		if len(seen) == 0 {
			close(begun)
			<-offered
		}
		seen = append(seen, v)
		return true
	}))
	require.Equal(t, []string{"first", "ab"}, seen)
}
