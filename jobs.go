package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/plain"
)

// ErrUnknownJob is returned for a job that does not exist, or ran long ago.
var ErrUnknownJob = guest.ErrNoJob

// Job is a command in the background, or a group of processes that a command
// left running.
type Job struct {
	ID        string        `json:"id"`
	Command   string        `json:"command"`             // the beginning of the command
	Running   bool          `json:"running"`             // a process of it is alive
	ExitCode  int           `json:"exit_code"`           // of its shell; -1 while that runs
	TimedOut  bool          `json:"timed_out,omitempty"` // ended at its time limit
	Killed    bool          `json:"killed,omitempty"`    // ended by KillJob
	Printed   int64         `json:"printed"`             // bytes of output so far
	Duration  time.Duration `json:"-"`                   // duration_seconds in JSON
	Processes int           `json:"processes"`           // how many are alive
}

// shownJob is how much of a job's command its description repeats, in bytes.
const shownJob = 80

// String describes the job in one line.
func (j Job) String() string {
	state := fmt.Sprintf("running for %s, %d processes", j.Duration.Round(time.Second), j.Processes)
	if j.Running && j.Processes == 1 {
		state = fmt.Sprintf("running for %s", j.Duration.Round(time.Second))
	}
	switch took := j.Duration.Round(time.Second / 10); {
	case j.Running:
	case j.Killed:
		state = fmt.Sprintf("killed by job_kill after %s", took)
	case j.TimedOut:
		state = fmt.Sprintf("killed at its time limit after %s", took)
	case j.ExitCode == 128+9:
		state = fmt.Sprintf("killed with exit code %d after %s, most often because memory ran out", j.ExitCode, took)
	default:
		state = fmt.Sprintf("ended with exit code %d after %s", j.ExitCode, took)
	}
	command := j.Command
	if len(command) > shownJob {
		command = strings.TrimSuffix(cut.Head(command, shownJob), " …") + " …"
	}
	return fmt.Sprintf("job %s (%s): %s, %d bytes printed", j.ID, command, state, j.Printed)
}

// sameState reports whether the job is the same, and runs or has ended in the
// same way.
func (j Job) sameState(other Job) bool {
	return j.ID == other.ID && j.Running == other.Running && j.ExitCode == other.ExitCode
}

func runningJobs(jobs []Job) []Job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return !j.Running })
}

// toldJobs is what the events of an agent have told of its background jobs.
type toldJobs struct {
	telling guard.Baton                   // held while the jobs are listed and told, so that the last event is right
	last    []Job                         // guarded by telling
	run     atomic.Bool                   // one of them runs, or may
	late    atomic.Pointer[chan struct{}] // closed when the runtime's Jobs returns, which was left behind; nil if it never was
	silent  atomic.Bool                   // the runtime did not answer when it was last asked
}

// jobLister returns what lists the background jobs. It is nil where there can be
// none: asking could start the runtime.
func (a *Agent) jobLister() func(context.Context) ([]Job, error) {
	runner, ok := RuntimeAs[JobRunner](a.runtime)
	switch rt, ours := runner.(*workspaceRuntime); {
	case !ok, ours && !rt.HadJobs():
		return nil
	case ours:
		return rt.knownJobs
	case !a.ranCommands.Load():
		return nil
	}
	return runner.Jobs
}

func (r *workspaceRuntime) knownJobs(ctx context.Context) ([]Job, error) {
	return jobsOf(r.KnownJobs(ctx))
}

// errJobsLate is returned instead of asking a runtime that owes an answer.
var errJobsLate = errors.New("the runtime has been asked before, and has not answered yet")

// listJobs returns the background jobs. It leaves only one call of a runtime
// behind that ignores its context.
func (a *Agent) listJobs(ctx context.Context) ([]Job, error) {
	list := a.jobLister()
	if list == nil {
		return nil, nil
	}
	if late := a.jobs.late.Load(); late != nil && !hasEnded(*late) {
		return nil, errJobsLate
	}
	returned := make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	jobs, err := guard.Outlive(ctx, func() ([]Job, error) {
		defer close(returned)
		defer a.enter(&a.calling, "the runtime's Jobs")()
		return list(ctx)
	})
	if !hasEnded(returned) {
		a.jobs.late.Store(&returned)
	}
	a.logPanic("the runtime's Jobs", err)
	return jobs, err
}

// hasEnded reports whether a channel is closed; a nil channel never is.
func hasEnded(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tellJobs emits the list of background jobs if it has changed, and reports
// whether one runs. If nobody gets events, it does nothing.
func (a *Agent) tellJobs(ctx context.Context) (run bool) {
	if !a.jobs.run.Load() && a.jobLister() == nil || !a.isHeard() || a.jobs.telling.LockContext(ctx) != nil {
		return false
	}
	defer a.jobs.telling.Unlock()
	jobs, err := a.listJobs(ctx)
	a.jobs.silent.Store(err != nil)
	if err != nil {
		a.log.Debug("background jobs are not known", "error", err)
		return a.jobs.run.Load()
	}
	a.jobs.run.Store(len(runningJobs(jobs)) > 0)
	if !slices.EqualFunc(a.jobs.last, jobs, Job.sameState) {
		a.jobs.last = jobs
		a.emit(Event{Type: EventJobs, Jobs: slices.Clone(jobs)})
	}
	return a.jobs.run.Load()
}

// endBeside ends what goes on beside the run.
func (r *run) endBeside() {
	r.worker.End()
	r.jobs.End()
	r.asksWindow.End()
}

// noteOldJobs is noteJobs for jobs that ran when they were told of last, perhaps in
// an earlier run.
func (r *run) noteOldJobs(ctx context.Context) {
	if r.agent.jobs.run.Load() {
		r.noteJobs(ctx)
	}
}

// watchJobsEvery is how often a runtime of this package is asked about jobs that
// run.
const watchJobsEvery = time.Second

// noteJobs tells of background jobs that have begun or ended. In a runtime of this
// package, which answers fast, those that run are watched until the run is over.
// While it does not answer, in a paused container for example, only the watch asks,
// so that the run does not wait after each call.
func (r *run) noteJobs(ctx context.Context) {
	a := r.agent
	if ctx.Err() != nil {
		a.jobs.run.Store(true) // perhaps: the next run asks
		return
	}
	if a.jobs.silent.Load() && r.jobs.Goes() || !a.tellJobs(ctx) {
		return
	}
	runner, _ := RuntimeAs[JobRunner](a.runtime)
	if _, ours := runner.(*workspaceRuntime); ours {
		r.jobs.Start(r.ctx, watchJobsEvery, a.tellJobs)
	}
}

// mayChangeJobs reports whether a call of a tool may start or end background jobs,
// or tell that one has ended.
func mayChangeJobs(tool string) bool {
	_, builtin := builtinTools()[tool]
	return !builtin || tool == "bash" || strings.HasPrefix(tool, "job_")
}

// MarshalJSON encodes the job's age in seconds.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	return json.Marshal(struct {
		plain
		Duration jsonobj.Seconds `json:"duration_seconds"`
	}{plain(j), jsonobj.Seconds(j.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	in := struct {
		*plain
		Duration *jsonobj.Seconds `json:"duration_seconds"`
	}{(*plain)(j), (*jsonobj.Seconds)(&j.Duration)}
	return json.Unmarshal(data, &in)
}

// JobOutput is a piece of a job's output.
type JobOutput struct {
	Text    string `json:"text"`
	Next    int64  `json:"next"`              // the offset to continue at
	Skipped int64  `json:"skipped,omitempty"` // bytes before Text that are no longer kept
	Job     Job    `json:"job"`               // its state
}

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
