package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/jobtrack"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/safecall"
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
	Duration  time.Duration `json:"-" seconds:"duration_seconds"`
	Processes int           `json:"processes"` // how many are alive
}

// String describes the job in one line.
func (j Job) String() string { return jobtrack.State(j).String() }

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
	telling safecall.Baton // held while the jobs are listed and told, so that the last event is right
	last    []Job          // guarded by telling
	run     atomic.Bool    // one of them runs, or may
	listing lateCall       // of the runtime
	silent  atomic.Bool    // the runtime did not answer when it was last asked
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

// listJobs returns the background jobs. It leaves only one call of a runtime
// behind that ignores its context.
func (a *Agent) listJobs(ctx context.Context) ([]Job, error) {
	list := a.jobLister()
	if list == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	return outliveOnce(ctx, a, &a.jobs.listing, "the runtime's Jobs", func() ([]Job, error) { return list(ctx) })
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

// Jobs returns the commands in the background as they are now: those that run and
// the last ones that ended, the oldest first. It asks the runtime, also between
// runs, but does not start one that has not been started, and [State.Jobs] is up to
// date after it. [EventJobs] tells listeners if one has begun or ended since they were
// told last. A runtime that does not answer within three seconds is an
// error; State.Jobs is what was known last then.
func (a *Agent) Jobs(ctx context.Context) ([]Job, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	jobs, err := a.askJobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the commands in the background: %w", err)
	}
	return slices.Clone(jobs), nil
}

// latestJobs is [Agent.Jobs], or what is known of the jobs if the runtime does not
// answer.
func (a *Agent) latestJobs(ctx context.Context) []Job {
	jobs, err := a.Jobs(ctx)
	if err != nil {
		a.log.Debug("background jobs are not known", "error", err)
		return a.State().Jobs
	}
	return jobs
}

// askJobs lists the background jobs, notes them in the state, and emits the list if
// it has changed.
func (a *Agent) askJobs(ctx context.Context) ([]Job, error) {
	if err := a.jobs.telling.LockContext(ctx); err != nil {
		return nil, err
	}
	defer a.jobs.telling.Unlock()
	jobs, err := a.listJobs(ctx)
	a.jobs.silent.Store(err != nil)
	if err != nil {
		return nil, err
	}
	a.jobs.run.Store(len(runningJobs(jobs)) > 0)
	if slices.EqualFunc(a.jobs.last, jobs, Job.sameState) {
		a.noteJobs(jobs)
		return jobs, nil
	}
	a.jobs.last = jobs
	a.emit(Event{Type: EventJobs, Jobs: slices.Clone(jobs)})
	return jobs, nil
}

// noteJobs notes in the state how far the jobs are that nobody has to be told of.
func (a *Agent) noteJobs(jobs []Job) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.state.Jobs, a.state.JobsAt = slices.Clone(jobs), time.Now()
}

// tellJobs emits the list of background jobs if it has changed, and reports
// whether one runs. If nobody gets events, it does nothing.
func (a *Agent) tellJobs(ctx context.Context) (run bool) {
	if !a.jobs.run.Load() && a.jobLister() == nil || !a.isHeard() {
		return false
	}
	if _, err := a.askJobs(ctx); err != nil {
		a.log.Debug("background jobs are not known", "error", err)
	}
	return a.jobs.run.Load()
}

// endBeside ends what goes on beside the run.
func (r *run) endBeside() {
	r.worker.End()
	r.jobs.End()
	r.asksWindow.End()
	r.asksState.End()
	r.prepares.End()
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
	return jsonobj.MarshalSeconds(plain(j))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	return jsonobj.UnmarshalSeconds(data, (*plain)(j))
}

// JobOutput is a piece of a job's output.
type JobOutput struct {
	Text    string `json:"text"`
	Next    int64  `json:"next"`              // the offset to continue at
	Skipped int64  `json:"skipped,omitempty"` // bytes before Text that are no longer kept
	Job     Job    `json:"job"`               // its state
}

// Bounds of what is told of the ends of jobs.
const (
	noticedLines  = 10
	noticedOutput = 1 << 10 // bytes of one
	noticedTotal  = 8 << 10 // bytes of all: of further ones it is only said how they ended
	noticedJobs   = 50      // further ones are counted
)

// followed returns what the model of a call knows of its jobs. Outside of a run,
// nobody reads it.
func followed(ctx context.Context) *jobtrack.Book {
	if call := toolCallOf(ctx); call != nil {
		return &call.agent.followed
	}
	return &jobtrack.Book{}
}

// followJob records that the model of a call learns of a job.
func followJob(ctx context.Context, id, command string, read int64) {
	if id != "" {
		followed(ctx).Begin(id, command, read)
	}
}

// sawJob records that the model of a call learns the state of a job.
func sawJob(ctx context.Context, job Job) {
	if !job.Running {
		followed(ctx).End(job.ID)
	}
}

// recallJobs learns from a conversation that is taken up which jobs its model
// knows. A new job gets none of their ids.
func (r *run) recallJobs() {
	a := r.agent
	if a.recalled {
		return
	}
	a.recalled = true
	var recall jobtrack.Recall
	calls := map[string]ToolCall{}
	for _, e := range a.history.ActiveEntries() {
		m := e.Message
		switch {
		case m.Role == chat.RoleAssistant && len(m.ToolCalls) > 0:
			clear(calls)
			for _, call := range m.ToolCalls {
				calls[call.ID] = call
			}
		case m.Role == chat.RoleTool:
			r.recallResult(&recall, calls[m.ToolCallID], e)
		case m.Role == chat.RoleUser && (e.Source == chat.SourceNotice || e.Source == ""):
			recall.Notice(m.Text())
		}
	}
	a.followed.Recall(&recall)
	if len(a.followed.Open()) > 0 {
		a.ranCommands.Store(true) // in an earlier run: a runtime of the caller's own is asked
		a.jobs.run.Store(true)    // perhaps
	}
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours {
		rt.SkipJobs(a.followed.Highest())
	}
}

// recallResult learns of jobs from the result of a call.
func (r *run) recallResult(recall *jobtrack.Recall, call ToolCall, e chat.HistoryEntry) {
	text := e.Message.Text()
	if call.Name == "" || e.Bash == nil && !strings.Contains(text, "job ") {
		return
	}
	read := r.read(call)
	switch read.Name {
	case "bash":
		bash := cmp.Or(e.Bash, &BashResult{})
		in, _ := commandIn(read.ToolCall)
		recall.Bash(in.Cmd, text, bash.Job, bash.Printed, e.Bash != nil)
	case "job_output":
		recall.Output(text)
	case "job_list", "job_kill":
		recall.List(text)
	}
}

// endedJobs returns what the model has to be told of jobs that have ended since it
// heard of them last, and, in a conversation that is taken up, of those that still
// run. It is told of each end once.
func (a *Agent) endedJobs(ctx context.Context) string {
	open := a.followed.Open()
	if len(open) == 0 || ctx.Err() != nil {
		return ""
	}
	jobs, err := a.listJobs(ctx)
	if err != nil {
		a.log.Debug("background jobs are not known", "error", err)
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin) // for all of them
	defer cancel()
	told := notedJobs{agent: a}
	for _, known := range open {
		at := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == known.ID })
		if at >= 0 {
			told.note(ctx, known, jobs[at])
		} else if !told.noteUnlisted(ctx, known) {
			break
		}
	}
	return told.String()
}

// notedJobs collects what a model is told of its jobs.
type notedJobs struct {
	agent   *Agent
	notices []string
	size    int  // of the notices, in bytes
	more    int  // jobs that are only counted
	silent  bool // the runtime does not tell what they printed
}

func (n *notedJobs) add(notice string) {
	if len(n.notices) >= noticedJobs {
		n.more++
		return
	}
	n.notices, n.size = append(n.notices, notice), n.size+len(notice)
}

// note tells of a job that the runtime has, if there is news.
func (n *notedJobs) note(ctx context.Context, known jobtrack.Job, job Job) {
	book := &n.agent.followed
	switch {
	case !known.Is(job.Command): // another agent's, in another runtime
		n.add(known.Lost())
		book.Lose(known.ID)
	case job.Running && known.Resumed:
		n.add(jobtrack.Met(jobtrack.State(job)))
		book.Met(known.ID)
	case !job.Running:
		n.add(jobtrack.Ended(jobtrack.State(job), n.lastOutput(ctx, job, known.Read)))
		book.End(known.ID)
	}
}

// noteUnlisted tells of a job that the runtime does not list. It may have ended long
// ago. The answer is false if the runtime did not answer.
func (n *notedJobs) noteUnlisted(ctx context.Context, known jobtrack.Job) (answered bool) {
	out, err := n.read(ctx, known.ID, known.Read)
	switch {
	case err == nil:
		n.note(ctx, known, out.Job)
	case errors.Is(err, ErrUnknownJob):
		n.add(known.Lost())
		n.agent.followed.Lose(known.ID)
	default:
		n.agent.log.Debug("a background job is not known", "error", err)
		return false
	}
	return true
}

// lastOutput returns the last lines of a job that the model has not read, as long as
// there is room for them.
func (n *notedJobs) lastOutput(ctx context.Context, job Job, read int64) string {
	if n.silent || job.Printed <= read || n.size >= noticedTotal {
		return ""
	}
	out, err := n.read(ctx, job.ID, max(read, job.Printed-jobtrack.Window/4))
	n.silent = err != nil
	return cut.Tail(cut.LastLines(plain.Clean(out.Text), noticedLines), noticedOutput)
}

// read reads the output of a job without starting a runtime.
func (n *notedJobs) read(ctx context.Context, id string, offset int64) (JobOutput, error) {
	a := n.agent
	runner, ok := RuntimeAs[JobRunner](a.runtime)
	if !ok {
		return JobOutput{}, ErrUnknownJob
	}
	return safecall.Outlive(ctx, func() (JobOutput, error) {
		defer a.enter(&a.calling, "the runtime's JobOutput")()
		if rt, ours := runner.(*workspaceRuntime); ours {
			return jobOutputOf(rt.KnownJobOutput(ctx, id, offset))
		}
		return runner.JobOutput(ctx, id, offset, 0)
	})
}

// String joins the notices.
func (n *notedJobs) String() string {
	if n.more > 0 {
		n.notices = append(n.notices, "[and of "+numeral.Count(n.more, "more job")+" there is news: see job_list]")
	}
	return strings.Join(n.notices, "\n")
}
