package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/x/pygent/internal/guest"
)

// JobRunner is implemented by runtimes that can run commands in the
// background. Jobs end with the runtime at the latest.
type JobRunner interface {
	// StartJob starts a command and returns at once. It has no time limit
	// unless [BashTimeout] sets one. What it prints is kept, the last of it
	// when it is much.
	StartJob(ctx context.Context, cmd string, opts ...BashOption) (Job, error)

	// Jobs returns the jobs that run and the last ones that ran, the oldest first.
	Jobs(ctx context.Context) ([]Job, error)

	// JobOutput returns what a job has printed from offset on, and waits at
	// most wait for something new. An unknown id is [ErrUnknownJob].
	JobOutput(ctx context.Context, id string, offset int64, wait time.Duration) (JobOutput, error)

	// KillJob ends a job with all its processes, and returns when they are gone.
	KillJob(ctx context.Context, id string) (Job, error)
}

// ErrUnknownJob is returned for a job that does not exist, or ran long ago.
var ErrUnknownJob = guest.ErrNoJob

// Job is a command in the background, or processes that a command left there.
type Job struct {
	ID        string        `json:"id"`
	Command   string        `json:"command"`   // its beginning
	Running   bool          `json:"running"`   // a process of it is alive
	ExitCode  int           `json:"exit_code"` // of its shell; -1 while that runs
	Printed   int64         `json:"printed"`   // bytes of output so far
	Duration  time.Duration `json:"duration"`
	Processes int           `json:"processes"` // how many are alive
}

// String describes the job in one line.
func (j Job) String() string {
	state := fmt.Sprintf("running for %s, %d processes", j.Duration.Round(time.Second), j.Processes)
	if !j.Running {
		state = fmt.Sprintf("ended with exit code %d", j.ExitCode)
	}
	return fmt.Sprintf("job %s (%s): %s, %d bytes printed", j.ID, headOf(j.Command, 80), state, j.Printed)
}

// JobOutput is a piece of a job's output.
type JobOutput struct {
	Text    string `json:"text"`
	Next    int64  `json:"next"`              // the offset to go on at
	Skipped int64  `json:"skipped,omitempty"` // bytes before Text that are no longer kept
	Job     Job    `json:"job"`               // its state
}

// maxJobOutput bounds a piece of a job's output, in bytes.
const maxJobOutput = DefaultMaxOutput

// maxKeptJobOutput is how much of a job's output is kept, in bytes, where no
// file can take the whole.
const maxKeptJobOutput = 64 << 10

var _ interface {
	JobRunner
	Dialer
} = (*workspaceRuntime)(nil)

// StartJob implements [JobRunner].
func (r *workspaceRuntime) StartJob(ctx context.Context, cmd string, opts ...BashOption) (Job, error) {
	var job Job
	err := r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		var o BashOptions // unlike a command that is waited for, a job has no default limit
		for _, opt := range opts {
			opt(&o)
		}
		o.MaxOutput = cmp.Or(o.MaxOutput, maxKeptJobOutput)
		spec, err := r.spec(ctx, cmd, o)
		if err != nil {
			return err
		}
		started, err := g.Start(ctx, spec.guestCommand())
		job = jobOf(started)
		return err
	})
	return job, err
}

// Jobs implements [JobRunner].
func (r *workspaceRuntime) Jobs(ctx context.Context) ([]Job, error) {
	var jobs []Job
	err := r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		list, err := g.Jobs(ctx)
		for _, j := range list {
			jobs = append(jobs, jobOf(j))
		}
		return err
	})
	return jobs, err
}

// JobOutput implements [JobRunner].
func (r *workspaceRuntime) JobOutput(ctx context.Context, id string, offset int64, wait time.Duration) (JobOutput, error) {
	var out JobOutput
	err := r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		o, err := g.Output(ctx, id, offset, maxJobOutput, wait)
		var text BashResult
		joinOutput(o.Data, nil, 0, &text)
		out = JobOutput{Text: text.Output, Next: o.Next, Skipped: o.Skipped, Job: jobOf(o.Job)}
		return err
	})
	return out, err
}

// KillJob implements [JobRunner].
func (r *workspaceRuntime) KillJob(ctx context.Context, id string) (Job, error) {
	var job Job
	err := r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		killed, err := g.Kill(ctx, id, killGrace)
		job = jobOf(killed)
		return err
	})
	return job, err
}

// withGuest calls f with the runtime's guest, started if need be.
func (r *workspaceRuntime) withGuest(ctx context.Context, f func(context.Context, *guest.Client) error) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	client, err := r.commands.guest(ctx)
	if err == nil {
		err = f(ctx, client)
	}
	if errors.Is(err, guest.ErrClosed) {
		err = fmt.Errorf("%w; its jobs cannot be reached any more", err)
	}
	return r.errorOf(ctx, err)
}

func jobOf(j guest.Job) Job {
	job := Job{
		ID: j.ID, Command: j.Command, Running: j.Running, ExitCode: -1,
		Printed: j.Total, Duration: j.Duration, Processes: j.Count,
	}
	if j.Exited {
		job.ExitCode = j.ExitCode
	}
	return job
}
