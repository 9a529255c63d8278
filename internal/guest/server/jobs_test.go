package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

// fakeProcess ends when it is stopped.
type fakeProcess struct {
	exit  supervise.Exit
	ended chan struct{}
}

func (p *fakeProcess) Exited() <-chan struct{}      { return p.ended }
func (p *fakeProcess) Exit() supervise.Exit         { return p.exit }
func (p *fakeProcess) Gone() <-chan struct{}        { return p.ended }
func (p *fakeProcess) Stop(time.Duration)           { close(p.ended) }
func (p *fakeProcess) Procs(int) ([]wire.Proc, int) { return nil, 0 }

func newFakeJob(m *wire.Run) *job {
	j := newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(10, 10, nil), m)
	close(j.drained)
	return j
}

func TestACommandThatNobodyWantsAtItsLimitIsNoJob(t *testing.T) {
	for range 50 { // which of both is seen first is left to chance
		synctest.Test(t, func(t *testing.T) {
			j := newFakeJob(&wire.Run{GoOn: true, Timeout: time.Second})
			gaveUp := make(chan struct{})
			close(gaveUp)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			result := j.await(t.Context(), gaveUp)
			require.False(t, result.GoesOn)
			require.True(t, result.Cancelled)
		})
	}
}

func TestHowManyJobsEndedStaysKnown(t *testing.T) {
	s := newJobs()
	for i := range maxKnown + 10 {
		j := newFakeJob(&wire.Run{Script: fmt.Appendf(nil, "exit %d", i)})
		_, _ = j.output.Write([]byte("output"))
		j.proc.Stop(0)
		s.add(j)
	}
	require.Len(t, s.list().Jobs, maxEnded)
	out, err := s.output(t.Context(), &wire.OutputRequest{Job: "11"})
	require.NoError(t, err)
	require.True(t, out.Job.Exited)
	require.Equal(t, "exit 10", out.Job.Command)
	require.EqualValues(t, len("output"), out.Job.Total)
	require.EqualValues(t, out.Job.Total, out.Chunk.Offset, "its output is not kept")
	_, err = s.output(t.Context(), &wire.OutputRequest{Job: "10"})
	require.ErrorIs(t, err, wire.ErrNoJob)
	out, err = s.output(t.Context(), &wire.OutputRequest{Job: "1000"})
	require.NoError(t, err)
	require.Equal(t, "output", string(out.Chunk.Data))
}
