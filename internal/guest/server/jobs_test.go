package server

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// stuckProcess cannot be stopped.
type stuckProcess struct{ fakeProcess }

func (p *stuckProcess) Stop(time.Duration) {}

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

// Nobody could end it any more.
func TestAJobThatRunsIsNeverForgotten(t *testing.T) {
	s := newJobs()
	runs := s.add(newFakeJob(&wire.Run{}))
	for range maxKnown + 10 {
		j := newFakeJob(&wire.Run{})
		j.proc.Stop(0)
		s.add(j)
	}
	require.Len(t, s.list().Jobs, maxEnded+1)
	require.Equal(t, runs, s.list().Jobs[0].ID)
	j, err := s.find(runs)
	require.NoError(t, err)
	require.False(t, isClosed(j.proc.Gone()))
}

// A program that goes on may have a job that has the number of one here.
func TestJobsHaveHigherNumbersThanThoseBefore(t *testing.T) {
	s := newJobs()
	for _, tt := range []struct {
		after int64
		want  string
	}{{0, "1"}, {7, "8"}, {7, "9"}, {3, "10"}} {
		require.Equal(t, tt.want, s.add(newFakeJob(&wire.Run{JobsAfter: tt.after})))
	}
	var listed []string
	for _, j := range s.list().Jobs {
		listed = append(listed, j.ID)
	}
	require.Equal(t, []string{"1", "8", "9", "10"}, listed)
}

// A time limit that passes after the end would stop processes of others, which have the
// numbers now.
func TestTheTimeOfAJobEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		j := newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(10, 10, nil), &wire.Run{Timeout: time.Minute})
		s := newJobs()
		id := s.add(j)
		s.watch(j, read)
		_, err = write.WriteString("output")
		require.NoError(t, errors.Join(err, write.Close()))
		<-j.drained
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			s.wait()
		}()
		time.Sleep(time.Second)
		require.False(t, isClosed(waited))
		j.proc.Stop(0) // a second time would panic
		<-waited
		time.Sleep(time.Hour)
		status := j.status()
		require.Equal(t, time.Second, status.Duration)
		require.Equal(t, []bool{true, false, false}, []bool{status.Exited, status.Running, status.TimedOut})

		begun := time.Now()
		out, err := s.output(t.Context(), &wire.OutputRequest{Job: id, Offset: status.Total, Wait: time.Hour})
		require.NoError(t, err)
		require.Empty(t, out.Chunk.Data)
		require.Zero(t, time.Since(begun), "there is going to be no more")
	})
}

func TestOutputIsWaitedFor(t *testing.T) {
	const kept = wire.MaxRead + 10
	for name, tt := range map[string]struct {
		request wire.OutputRequest
		more    time.Duration // after which there is more output; 0 for never
		want    int           // bytes
		waited  time.Duration
	}{
		"there is some":       {wire.OutputRequest{Wait: time.Minute}, 0, wire.MaxRead, 0},
		"all of it":           {wire.OutputRequest{Limit: kept}, 0, wire.MaxRead, 0},
		"a part of it":        {wire.OutputRequest{Offset: 5, Limit: 3}, 0, 3, 0},
		"the rest":            {wire.OutputRequest{Offset: kept - 4}, 0, 4, 0},
		"no more":             {wire.OutputRequest{Offset: kept, Wait: time.Minute}, 0, 0, time.Minute},
		"more":                {wire.OutputRequest{Offset: kept, Wait: time.Minute}, time.Second, 4, time.Second},
		"nobody wants to":     {wire.OutputRequest{Offset: kept}, time.Second, 0, 0},
		"the caller gives up": {wire.OutputRequest{Offset: kept, Wait: time.Hour}, 0, 0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJobs()
				j := newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(kept, 10, nil), &wire.Run{})
				tt.request.Job = s.add(j)
				_, _ = j.output.Write(make([]byte, kept))
				if tt.more > 0 {
					time.AfterFunc(tt.more, func() { _, _ = j.output.Write([]byte("more")) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				begun := time.Now()
				out, err := s.output(ctx, &tt.request)
				require.NoError(t, err)
				require.Equal(t, tt.waited, time.Since(begun))
				require.Len(t, out.Chunk.Data, tt.want)
				require.Equal(t, tt.request.Offset, out.Chunk.Offset)
				require.True(t, out.Job.Running)
			})
		})
	}
}

func TestAKillEndsWithTheProcessesAndTheirOutput(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	ends := func() supervise.Process { return &fakeProcess{ended: make(chan struct{})} }
	stuck := func() supervise.Process { return &stuckProcess{fakeProcess{ended: make(chan struct{})}} }
	over := func() supervise.Process {
		p := &stuckProcess{fakeProcess{ended: make(chan struct{})}}
		close(p.ended)
		return p
	}
	for name, tt := range map[string]struct {
		proc    func() supervise.Process
		drained time.Duration // when its output has ended
		within  time.Duration // that the caller waits
		waited  time.Duration
		killed  bool
		err     string
	}{
		"at once":       {ends, 0, time.Hour, 0, true, ""},
		"late output":   {ends, time.Minute, time.Hour, time.Minute, true, ""},
		"never":         {stuck, 0, time.Hour, 5*time.Second + killLimit, false, "could not be killed"},
		"not so long":   {stuck, 0, time.Second, time.Second, false, gaveUp.Error()},
		"it had ended":  {over, 0, time.Hour, 0, false, ""},
		"no such thing": {nil, 0, time.Hour, 0, false, wire.ErrNoJob.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newJobs()
				request := &wire.Kill{Job: "1", Grace: 5 * time.Second}
				if tt.proc != nil {
					j := newJob(tt.proc(), newCapture(10, 10, nil), &wire.Run{})
					request.Job = s.add(j)
					time.AfterFunc(tt.drained, func() { close(j.drained) })
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.within, gaveUp)
				defer cancel()
				begun := time.Now()
				status, err := s.kill(ctx, request)
				require.Equal(t, tt.waited, time.Since(begun))
				if tt.err != "" {
					require.ErrorContains(t, err, tt.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, []bool{tt.killed, false}, []bool{status.Killed, status.Running})
			})
		})
	}
}
