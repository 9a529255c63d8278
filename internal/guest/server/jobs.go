package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

const (
	// maxEnded is how many ended jobs are listed, and keep their output in memory.
	maxEnded = 64
	// maxKnown is of how many ended jobs it is known how they ended.
	maxKnown = 1000
)

// job is a command with its output.
type job struct {
	title   string
	grace   time.Duration
	started time.Time
	proc    supervise.Process
	output  *capture
	drained chan struct{} // closed when the output has ended
	late    chan struct{} // closed when it has not within goneLimit, where no system call can end it
	pipe    *os.File      // with the output; nil until it is watched
	taking  sync.Mutex    // held from a read of the pipe on until the output has what was read
	expired chan struct{} // closed when the time limit has passed
	limit   *timeLimit
	goOn    bool  // at the time limit, instead of ending
	after   int64 // its id is a higher number
	old     bool  // it ended long ago, and is not listed any more; guarded by the mutex of jobs

	mu        sync.Mutex // guards the fields below
	id        string
	timedOut  bool
	cancelled bool
	killed    bool
	ended     time.Time
}

func newJob(proc supervise.Process, output *capture, m *wire.Run) *job {
	j := &job{
		title: title(m.Script), grace: m.Grace, started: time.Now(), goOn: m.GoOn, after: m.JobsAfter,
		proc: proc, output: output,
		drained: make(chan struct{}), late: make(chan struct{}), expired: make(chan struct{}),
	}
	j.limit = newTimeLimit(m.Timeout, j.expire)
	return j
}

// expire stops the job because its time limit has passed, if it may not go on.
func (j *job) expire() {
	if j.goOn {
		close(j.expired)
		return
	}
	j.mu.Lock()
	j.timedOut = true
	j.mu.Unlock()
	close(j.expired)
	j.proc.Stop(j.grace)
}

// cancel stops the job because nobody wants it any more.
func (j *job) cancel() {
	j.mu.Lock()
	j.cancelled = true
	j.mu.Unlock()
	j.proc.Stop(j.grace)
}

// kill stops the job on request. What has ended was not killed.
func (j *job) kill(grace time.Duration) {
	select {
	case <-j.proc.Gone():
	default:
		j.mu.Lock()
		j.killed = true
		j.mu.Unlock()
	}
	j.proc.Stop(grace)
}

func (j *job) why() (timedOut, cancelled bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.timedOut, j.cancelled
}

func (j *job) stopped() bool {
	timedOut, cancelled := j.why()
	return timedOut || cancelled
}

// status returns the current state of the job.
func (j *job) status() *wire.Job {
	s := &wire.Job{Command: j.title, Duration: time.Since(j.started), Total: j.output.size()}
	j.mu.Lock()
	s.ID, s.TimedOut, s.Killed = j.id, j.timedOut, j.killed
	if !j.ended.IsZero() {
		s.Duration = j.ended.Sub(j.started)
	}
	j.mu.Unlock()
	select {
	case <-j.drained:
	default:
		s.Running = true
	}
	select {
	case <-j.proc.Gone():
	default:
		s.Running = true
	}
	select {
	case <-j.proc.Exited():
		exit := j.proc.Exit()
		s.Exited, s.ExitCode, s.Signal = true, exit.Code, exit.Signal
	default:
	}
	s.Procs, s.Count = j.proc.Procs(wire.MaxProcs)
	s.Spill = j.output.spillPath()
	return s
}

// jobs holds the commands that nobody waits for, and tracks all goroutines that
// read output.
type jobs struct {
	readers sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	count int64      // the highest id
	all   []*job     // in the order of their ids
}

func newJobs() *jobs { return &jobs{} }

// watch reads a job's output until it ends.
func (s *jobs) watch(j *job, read *os.File) {
	j.pipe = read
	s.readers.Go(func() {
		defer close(j.drained)
		defer j.output.end()
		defer read.Close()
		j.drain()
	})
	s.readers.Go(func() {
		<-j.proc.Gone()
		j.limit.end()
		j.mu.Lock()
		j.ended = time.Now()
		j.mu.Unlock()
		// Everything that the job wrote is in the pipe by now. An unrelated
		// process that holds the other end must not keep it open for ever.
		if read.SetReadDeadline(time.Now().Add(goneLimit)) == nil {
			return
		}
		select {
		case <-j.drained:
		case <-time.After(goneLimit):
			close(j.late)
		}
	})
}

// drain takes all output from the pipe, until its end or its deadline.
func (j *job) drain() {
	buf := make([]byte, 32<<10)
	var err error
	for err == nil {
		_, err = take(j.pipe, &j.taking, buf, j.output)
	}
	// On a busy machine the time may pass before the output was read. Of what waits then,
	// another process that has the pipe may read some first.
	for left := pending(j.pipe); errors.Is(err, os.ErrDeadlineExceeded) && left > 0 && pending(j.pipe) > 0; {
		_ = j.pipe.SetReadDeadline(time.Now().Add(goneLimit))
		var n int
		for err = nil; err == nil && left > 0; left -= int64(n) {
			n, err = take(j.pipe, &j.taking, buf[:min(int64(len(buf)), left)], j.output)
		}
	}
}

// soFar returns how many bytes of what the command has written are kept, and how many
// wait in the pipe. None are between the two.
func (j *job) soFar() (kept, waiting int64) {
	j.taking.Lock()
	defer j.taking.Unlock()
	return j.output.size(), pending(j.pipe)
}

// add registers a job and gives it an id.
func (s *jobs) add(j *job) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count = max(s.count, j.after) + 1
	id := strconv.FormatInt(s.count, 10)
	j.mu.Lock()
	j.id = id
	j.mu.Unlock()
	s.all = append(s.all, j)
	s.forget()
	return id
}

// forget lets go of the oldest ended jobs when there are too many: of their output
// first, and later of how they ended.
func (s *jobs) forget() {
	ended := 0
	for i := len(s.all) - 1; i >= 0; i-- {
		j := s.all[i]
		if !isClosed(j.proc.Gone()) {
			continue
		}
		switch ended++; {
		case ended > maxKnown:
			s.all = slices.Delete(s.all, i, i+1)
		case ended > maxEnded && !j.old:
			j.old = true
			j.output.forget()
		}
	}
}

func (s *jobs) find(id string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.all {
		if j.id == id {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %q: %w", id, wire.ErrNoJob)
}

func (s *jobs) list() *wire.Jobs {
	s.mu.Lock()
	jobs := slices.DeleteFunc(slices.Clone(s.all), func(j *job) bool { return j.old })
	s.mu.Unlock()
	m := &wire.Jobs{}
	for _, j := range jobs {
		m.Jobs = append(m.Jobs, *j.status())
	}
	return m
}

// output returns a job's output from an offset on. If asked to, it waits for
// something new.
func (s *jobs) output(ctx context.Context, m *wire.OutputRequest) (*wire.Output, error) {
	j, err := s.find(m.Job)
	if err != nil {
		return nil, err
	}
	if m.Wait > 0 {
		timer := time.NewTimer(m.Wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-j.output.after(m.Offset):
		}
	}
	limit := m.Limit
	if limit <= 0 || limit > wire.MaxRead {
		limit = wire.MaxRead
	}
	// The status must be read before the output: a job that has ended writes no
	// more, so whoever sees the end in the status has received all of the
	// output.
	status := j.status()
	at, data := j.output.read(m.Offset, limit)
	return &wire.Output{Chunk: wire.Chunk{Offset: at, Data: data}, Job: *status}, nil
}

// kill ends a job and waits until it has ended.
func (s *jobs) kill(ctx context.Context, m *wire.Kill) (*wire.Job, error) {
	j, err := s.find(m.Job)
	if err != nil {
		return nil, err
	}
	j.kill(m.Grace)
	timer := time.NewTimer(m.Grace + killLimit)
	defer timer.Stop()
	select {
	case <-j.proc.Gone():
		j.awaitOutput()
	case <-timer.C:
		return nil, errors.New("processes of the job could not be killed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return j.status(), nil
}

// wait waits for all goroutines that read output.
func (s *jobs) wait() { s.readers.Wait() }
