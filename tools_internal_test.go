package pygent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// endlessJob is a job that prints nothing.
type endlessJob struct {
	JobRunner
	Runtime
}

func (endlessJob) JobOutput(_ context.Context, _ string, _ int64, wait time.Duration) (JobOutput, error) {
	time.Sleep(wait)
	return JobOutput{Job: Job{ID: "1", Running: true}}, nil
}

func TestJobOutputWaitsAtMostTenMinutes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   jobOutputInput
		want time.Duration
	}{
		{jobOutputInput{}, 0}, {jobOutputInput{Wait: 0.5}, time.Second / 2}, {jobOutputInput{Wait: 1e300}, 600 * time.Second},
		{jobOutputInput{Until: "x"}, 60 * time.Second}, {jobOutputInput{Until: "x", Wait: 5}, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			result, err := jobOutput(t.Context(), endlessJob{}, tt.in)
			require.NoError(t, err)
			require.Equal(t, tt.want, time.Since(begun))
			require.Contains(t, result.Content, "(no new output)")
			require.Equal(t, tt.in.Until != "", strings.Contains(result.Content, "; the text was not printed within "))
		})
	}
}
