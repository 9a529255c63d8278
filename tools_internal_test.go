package pygent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jobs records how long it was asked to wait for output.
type jobs struct {
	JobRunner
	Runtime
	waited time.Duration
}

func (j *jobs) JobOutput(_ context.Context, _ string, _ int64, wait time.Duration) (JobOutput, error) {
	j.waited = wait
	return JobOutput{}, nil
}

func TestJobOutputWaitsAtMostAMinute(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{0: 0, 0.5: time.Second / 2, 60: time.Minute, 61: time.Minute, 1e300: time.Minute} {
		rt := &jobs{}
		_, err := jobOutput(t.Context(), rt, jobOutputInput{ID: "1", Wait: seconds})
		require.NoError(t, err)
		require.Equal(t, want, rt.waited, seconds)
	}
}
