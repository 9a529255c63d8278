package pygent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/plain"
)

// maxFollowed is how many jobs an agent remembers.
const maxFollowed = 100

// Bounds of what is told of the end of a job.
const (
	noticedLines  = 10
	noticedOutput = 1 << 10 // bytes
)

// followedJobs are the jobs that an agent's model knows of. The zero value is ready
// to use.
type followedJobs struct {
	mu   sync.Mutex // guards the field below
	jobs []*followedJob
}

type followedJob struct {
	id, command string
	read        int64 // how far the model has read its output
	ended       bool  // the model knows of its end
}

// follow records a job that the model is told of, with how much of its output it
// is shown.
func (f *followedJobs) follow(id, command string, read int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = slices.DeleteFunc(f.jobs, func(j *followedJob) bool { return j.id == id })
	line, _, _ := strings.Cut(strings.TrimSpace(command), "\n")
	f.jobs = append(f.jobs, &followedJob{id: id, command: cut.Head(line, 80), read: read})
	if len(f.jobs) > maxFollowed {
		f.jobs = f.jobs[1:]
	}
}

// change changes what is known of a job.
func (f *followedJobs) change(id string, set func(*followedJob)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if j.id == id {
			set(j)
		}
	}
}

// open returns the jobs of whose end the model does not know.
func (f *followedJobs) open() (open []followedJob) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if !j.ended {
			open = append(open, *j)
		}
	}
	return open
}

// followed returns the jobs that the model of a call knows of, or nil.
func followed(ctx context.Context) *followedJobs {
	if call := toolCallOf(ctx); call != nil {
		return &call.agent.followed
	}
	return nil
}

// followJob records that the model of a call learns of a job.
func followJob(ctx context.Context, id, command string, read int64) {
	if f := followed(ctx); f != nil && id != "" {
		f.follow(id, command, read)
	}
}

// readUpTo returns how far the model of a call has read the output of a job.
func readUpTo(ctx context.Context, id string) (at int64) {
	if f := followed(ctx); f != nil {
		f.change(id, func(j *followedJob) { at = j.read })
	}
	return at
}

// sawOutput records that the model of a call has read a job's output so far.
func sawOutput(ctx context.Context, id string, at int64) {
	if f := followed(ctx); f != nil {
		f.change(id, func(j *followedJob) { j.read = max(j.read, at) })
	}
}

// sawJob records that the model of a call learns the state of a job.
func sawJob(ctx context.Context, job Job) {
	if f := followed(ctx); f != nil && !job.Running {
		f.change(job.ID, func(j *followedJob) { j.ended = true })
	}
}

// endedJobs returns what the model has to be told of jobs that have ended since it
// heard of them last. It is told of each end once.
func (a *Agent) endedJobs(ctx context.Context) string {
	open := a.followed.open()
	if len(open) == 0 || ctx.Err() != nil {
		return ""
	}
	jobs, err := a.listJobs(ctx)
	if err != nil {
		a.log.Debug("background jobs are not known", "error", err)
		return ""
	}
	var notices []string
	for _, o := range open {
		at := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == o.id })
		switch {
		case at < 0:
			notices = append(notices, fmt.Sprintf("[job %s (%s) is lost, with the container or process that it ran in]", o.id, o.command))
		case jobs[at].Running:
			continue
		default:
			notices = append(notices, fmt.Sprintf("[%s]%s", jobs[at], a.lastOutput(ctx, jobs[at], o.read)))
		}
		a.followed.change(o.id, func(j *followedJob) { j.ended = true })
	}
	return strings.Join(notices, "\n")
}

// lastOutput returns the last lines of a job that the model has not read.
func (a *Agent) lastOutput(ctx context.Context, job Job, read int64) string {
	runner, ok := RuntimeAs[JobRunner](a.runtime)
	if !ok || job.Printed <= read {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	out, err := guard.Outlive(ctx, func() (JobOutput, error) {
		defer a.enter(&a.calling, "the runtime's JobOutput")()
		return runner.JobOutput(ctx, job.ID, max(read, job.Printed-maxJobWindow/4), 0)
	})
	if err != nil || strings.TrimSpace(out.Text) == "" {
		return ""
	}
	return " its last lines:\n" + cut.Tail(lastLines(plain.Clean(out.Text), noticedLines), noticedOutput)
}
