package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/plain"
)

// maxJobOutput bounds a piece of a job's output, in bytes.
const maxJobOutput = 32 << 10

// maxKeptJobOutput is how much of a job's output is kept, in bytes, where no
// file can take the whole.
const maxKeptJobOutput = 64 << 10

// JobOutput is a piece of a job's output.
type JobOutput struct {
	Text    string
	Next    int64 // the offset to go on at
	Skipped int64 // bytes before Text that are no longer kept
	Job     guest.Job
}

// StartJob starts a command in the background and returns at once.
func (r *Sandbox) StartJob(ctx context.Context, cmd Command) (job guest.Job, err error) {
	err = r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		cmd.MaxOutput = cmp.Or(cmd.MaxOutput, maxKeptJobOutput)
		if cmd, err = r.complete(ctx, cmd); err != nil {
			return err
		}
		if job, err = g.Start(ctx, cmd.guestCommand()); err == nil {
			r.noteJob(job.ID, cmd.Script, g)
		}
		return err
	})
	return job, err
}

// noteJob records a job that a guest has begun.
func (r *Sandbox) noteJob(id, script string, g *guest.Client) {
	r.begun.note(id, script, g)
	r.jobsOn.Store(g)
}

// maxBegun is how many jobs are remembered, so that it can be said that one was
// lost.
const maxBegun = 64

// begunJobs remembers the last jobs that were begun, and by which guest. The zero
// value is ready to use.
type begunJobs struct {
	last atomic.Int64 // the highest number of a job, so that none is used by two guests

	mu   sync.Mutex // guards the field below
	jobs []begunJob // the oldest first
}

type begunJob struct {
	id, script string
	guest      *guest.Client
}

// skip has later jobs get higher numbers.
func (b *begunJobs) skip(n int64) {
	for last := b.last.Load(); n > last && !b.last.CompareAndSwap(last, n); last = b.last.Load() {
	}
}

func (b *begunJobs) note(id, script string, g *guest.Client) {
	if n, err := strconv.ParseInt(id, 10, 32); err == nil { // a guest is not trusted to count
		b.skip(n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs = append(b.jobs, begunJob{id, cut.Head(script, shownScript), g})
	if len(b.jobs) > maxBegun {
		b.jobs = slices.Delete(b.jobs, 0, 1)
	}
}

// shownScript is how much of a lost job's script is said, in bytes.
const shownScript = 80

// explain adds to the error of a guest that does not know a job what became of it.
func (b *begunJobs) explain(err error, id string, g *guest.Client) error {
	if !errors.Is(err, guest.ErrNoJob) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		if j.id == id && j.guest != g {
			return fmt.Errorf("%w: job %s (%s) was lost with the container or process that it ran in", guest.ErrNoJob, id, firstLine(j.script))
		}
	}
	return fmt.Errorf("%w: %q", guest.ErrNoJob, id)
}

func firstLine(script string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	return line
}

// Jobs returns the jobs that run and the last ones that ran, the oldest first.
func (r *Sandbox) Jobs(ctx context.Context) (jobs []guest.Job, err error) {
	err = r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		jobs, err = g.Jobs(ctx)
		return err
	})
	return jobs, err
}

// SkipJobs has later jobs get numbers above last as their ids.
func (r *Sandbox) SkipJobs(last int64) { r.begun.skip(last) }

// HadJobs reports whether there can be jobs, also such that have ended.
func (r *Sandbox) HadJobs() bool { return r.jobsOn.Load() != nil }

// KnownJobs is Jobs, but starts nothing, and asks nobody before the first job was
// started. The jobs of a guest that has ended are gone.
func (r *Sandbox) KnownJobs(ctx context.Context) ([]guest.Job, error) {
	client := r.jobsOn.Load()
	if client == nil {
		return nil, nil
	}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	jobs, err := client.Jobs(ctx)
	if errors.Is(err, guest.ErrClosed) {
		r.jobsOn.CompareAndSwap(client, nil)
		return nil, nil
	}
	return jobs, r.errorOf(ctx, err)
}

// JobOutput returns what a job has printed from offset on, and waits at most wait
// for something new.
func (r *Sandbox) JobOutput(ctx context.Context, id string, offset int64, wait time.Duration) (JobOutput, error) {
	var out JobOutput
	err := r.withGuest(ctx, func(ctx context.Context, g *guest.Client) (err error) {
		out, err = r.outputFrom(ctx, g, id, offset, wait)
		return err
	})
	return out, err
}

func (r *Sandbox) outputFrom(ctx context.Context, g *guest.Client, id string, offset int64, wait time.Duration) (JobOutput, error) {
	o, err := wholeOutput(ctx, g, id, offset, wait)
	return JobOutput{Text: escape.Valid(string(o.Data)), Next: o.Next, Skipped: o.Skipped, Job: o.Job}, r.begun.explain(err, id, g)
}

// KnownJobOutput is JobOutput without a wait, but starts nothing. The jobs of a guest
// that has ended are unknown.
func (r *Sandbox) KnownJobOutput(ctx context.Context, id string, offset int64) (JobOutput, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return JobOutput{}, err
	}
	defer done()
	client := r.jobsOn.Load()
	if client == nil {
		return JobOutput{}, guest.ErrNoJob
	}
	out, err := r.outputFrom(ctx, client, id, offset, 0)
	if errors.Is(err, guest.ErrClosed) {
		err = guest.ErrNoJob
	}
	return out, r.errorOf(ctx, err)
}

// wholeOutput returns a piece of a job's output that does not end within a character
// or escape sequence, as long as the rest of that may come.
func wholeOutput(ctx context.Context, g *guest.Client, id string, offset int64, wait time.Duration) (guest.Output, error) {
	asked := time.Now()
	o, err := g.Output(ctx, id, offset, maxJobOutput, wait)
	if err != nil {
		return o, err
	}
	open := plain.Open(string(o.Data))
	if open > 0 && open == len(o.Data) && (o.Job.Running || o.Next < o.Job.Total) {
		rest, err := g.Output(ctx, id, o.Next, maxJobOutput, max(wait-time.Since(asked), 0))
		if err != nil {
			return o, err
		}
		if rest.Skipped == 0 {
			o.Data, o.Next, o.Job = append(o.Data, rest.Data...), rest.Next, rest.Job
			open = plain.Open(string(o.Data))
		}
	}
	if o.Job.Running && o.Next == o.Job.Total || o.Next < o.Job.Total && open < len(o.Data) {
		o.Data, o.Next = o.Data[:len(o.Data)-open], o.Next-int64(open)
	}
	return o, nil
}

// KillJob ends a job with all its processes, and returns when they are gone.
func (r *Sandbox) KillJob(ctx context.Context, id string) (job guest.Job, err error) {
	err = r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		job, err = g.Kill(ctx, id, KillGrace)
		return r.begun.explain(err, id, g)
	})
	return job, err
}

// withGuest calls f with the sandbox's guest, started if need be.
func (r *Sandbox) withGuest(ctx context.Context, f func(context.Context, *guest.Client) error) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	client, err := r.commands.Guest(ctx)
	if err == nil {
		err = f(ctx, client)
	}
	if errors.Is(err, guest.ErrClosed) {
		err = fmt.Errorf("%w; its jobs cannot be reached any more", err)
	}
	return r.errorOf(ctx, err)
}
