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

// agentJobs is what an agent, its model and its listeners know of the background jobs.
type agentJobs struct {
	runtime     Runtime // nil until it is made
	calls       *callbacks
	emit        func(Event)
	isHeard     func() bool // reports whether anybody gets events
	show        func([]Job) // in the state, without an event
	outliveOnce func(context.Context, func() ([]Job, error)) ([]Job, error)

	ranCommands atomic.Bool    // a command may have run in the runtime and left processes behind
	run         atomic.Bool    // one of the jobs runs, or may
	silent      atomic.Bool    // the runtime did not answer when it was last asked
	emitting    safecall.Baton // held while the jobs are listed and emitted, so that the last event is right
	emitted     []Job          // the last; guarded by emitting

	known    jobtrack.Book // to the model
	recalled bool          // those of the conversation are known; guarded by the agent's slot
}

// begin connects the jobs with their agent, which has no runtime yet.
func (j *agentJobs) begin(a *Agent) {
	var listing lateCall
	j.emitting, j.calls, j.isHeard = safecall.NewBaton(), &a.callbacks, a.events.isHeard
	j.emit = func(e Event) { a.emit(e) }
	j.show = a.events.setJobs
	j.outliveOnce = func(ctx context.Context, list func() ([]Job, error)) ([]Job, error) {
		return outliveOnce(ctx, a, &listing, "the runtime's Jobs", list)
	}
}

// lister returns what lists the jobs. It is nil where there can be none: asking could
// start the runtime.
func (j *agentJobs) lister() func(context.Context) ([]Job, error) {
	runner, ok := RuntimeAs[JobRunner](j.runtime)
	switch rt, ours := runner.(*workspaceRuntime); {
	case !ok, ours && !rt.HadJobs():
		return nil
	case ours:
		return rt.knownJobs
	case !j.ranCommands.Load():
		return nil
	}
	return runner.Jobs
}

func (r *workspaceRuntime) knownJobs(ctx context.Context) ([]Job, error) {
	return jobsOf(r.KnownJobs(ctx))
}

// list returns the jobs. It leaves only one call of a runtime behind that ignores its
// context.
func (j *agentJobs) list(ctx context.Context) ([]Job, error) {
	list := j.lister()
	if list == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	return j.outliveOnce(ctx, func() ([]Job, error) { return list(ctx) })
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
	jobs, err := a.jobs.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the commands in the background: %w", err)
	}
	return slices.Clone(jobs), nil
}

// ask lists the jobs, shows them in the state, and emits the list if it has changed.
func (j *agentJobs) ask(ctx context.Context) ([]Job, error) {
	if err := j.emitting.LockContext(ctx); err != nil {
		return nil, err
	}
	defer j.emitting.Unlock()
	jobs, err := j.list(ctx)
	j.silent.Store(err != nil)
	if err != nil {
		return nil, err
	}
	j.run.Store(len(runningJobs(jobs)) > 0)
	if slices.EqualFunc(j.emitted, jobs, Job.sameState) {
		j.show(jobs)
		return jobs, nil
	}
	j.emitted = jobs
	j.emit(Event{Type: EventJobs, Jobs: slices.Clone(jobs)})
	return jobs, nil
}

// emitChanges emits the list of jobs if it has changed, and reports whether one runs. If
// nobody gets events, it does nothing.
func (j *agentJobs) emitChanges(ctx context.Context) (run bool) {
	if !j.run.Load() && j.lister() == nil || !j.isHeard() {
		return false
	}
	if _, err := j.ask(ctx); err != nil {
		j.calls.log.Debug("background jobs are not known", "error", err)
	}
	return j.run.Load()
}

// endBeside ends what goes on beside the run.
func (r *run) endBeside() {
	r.worker.End()
	r.jobs.End()
	r.asksWindow.End()
	r.prepares.End()
}

// emitOldJobs is emitJobs for jobs that ran when they were emitted last, perhaps in
// an earlier run.
func (r *run) emitOldJobs(ctx context.Context) {
	if r.agent.jobs.run.Load() {
		r.emitJobs(ctx)
	}
}

// watchJobsEvery is how often a runtime of this package is asked about jobs that
// run.
const watchJobsEvery = time.Second

// emitJobs emits the list of background jobs if some have begun or ended. In a runtime of this
// package, which answers fast, those that run are watched until the run is over.
// While it does not answer, in a paused container for example, only the watch asks,
// so that the run does not wait after each call.
func (r *run) emitJobs(ctx context.Context) {
	a := r.agent
	if ctx.Err() != nil {
		a.jobs.run.Store(true) // perhaps: the next run asks
		return
	}
	if a.jobs.silent.Load() && r.jobs.Goes() || !a.jobs.emitChanges(ctx) {
		return
	}
	runner, _ := RuntimeAs[JobRunner](a.runtime)
	if _, ours := runner.(*workspaceRuntime); ours {
		r.jobs.Start(r.ctx, watchJobsEvery, a.jobs.emitChanges)
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

// knownJobs returns what the model of a call knows of its jobs. Outside of a run,
// nobody reads it.
func knownJobs(ctx context.Context) *jobtrack.Book {
	if call := toolCallOf(ctx); call != nil {
		return &call.agent.jobs.known
	}
	return &jobtrack.Book{}
}

// followJob records that the model of a call learns of a job.
func followJob(ctx context.Context, id, command string, read int64) {
	if id != "" {
		knownJobs(ctx).Begin(id, command, read)
	}
}

// sawJob records that the model of a call learns the state of a job.
func sawJob(ctx context.Context, job Job) {
	if !job.Running {
		knownJobs(ctx).End(job.ID)
	}
}

// recallJobs learns from a conversation that is taken up which jobs its model
// knows. A new job gets none of their ids.
func (r *run) recallJobs() {
	a := r.agent
	if a.jobs.recalled {
		return
	}
	a.jobs.recalled = true
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
	a.jobs.known.Recall(&recall)
	if len(a.jobs.known.Open()) > 0 {
		a.jobs.ranCommands.Store(true) // in an earlier run: a runtime of the caller's own is asked
		a.jobs.run.Store(true)         // perhaps
	}
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours {
		rt.SkipJobs(a.jobs.known.Highest())
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

// news returns what the model has to be told of jobs that have ended since it heard of
// them last, and, in a conversation that is taken up, of those that still run. It is told
// of each end once.
func (j *agentJobs) news(ctx context.Context) string {
	open := j.known.Open()
	if len(open) == 0 || ctx.Err() != nil {
		return ""
	}
	jobs, err := j.list(ctx)
	if err != nil {
		j.calls.log.Debug("background jobs are not known", "error", err)
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin) // for all of them
	defer cancel()
	news := jobNews{of: j}
	for _, known := range open {
		at := slices.IndexFunc(jobs, func(j Job) bool { return j.ID == known.ID })
		if at >= 0 {
			news.add(ctx, known, jobs[at])
		} else if !news.addUnlisted(ctx, known) {
			break
		}
	}
	return news.String()
}

// jobNews collects what a model is told of its jobs.
type jobNews struct {
	of      *agentJobs
	notices []string
	size    int  // of the notices, in bytes
	more    int  // jobs that are only counted
	silent  bool // the runtime does not tell what they printed
}

func (n *jobNews) append(notice string) {
	if len(n.notices) >= noticedJobs {
		n.more++
		return
	}
	n.notices, n.size = append(n.notices, notice), n.size+len(notice)
}

// add appends what is new of a job that the runtime has, if anything is.
func (n *jobNews) add(ctx context.Context, known jobtrack.Job, job Job) {
	book := &n.of.known
	switch {
	case !known.Is(job.Command): // another agent's, in another runtime
		n.append(known.Lost())
		book.Lose(known.ID)
	case job.Running && known.Resumed:
		n.append(jobtrack.Met(jobtrack.State(job)))
		book.Met(known.ID)
	case !job.Running:
		n.append(jobtrack.Ended(jobtrack.State(job), n.lastOutput(ctx, job, known.Read)))
		book.End(known.ID)
	}
}

// addUnlisted is add for a job that the runtime does not list. It may have ended long
// ago. The answer is false if the runtime did not answer.
func (n *jobNews) addUnlisted(ctx context.Context, known jobtrack.Job) (answered bool) {
	out, err := n.read(ctx, known.ID, known.Read)
	switch {
	case err == nil:
		n.add(ctx, known, out.Job)
	case errors.Is(err, ErrUnknownJob):
		n.append(known.Lost())
		n.of.known.Lose(known.ID)
	default:
		n.of.calls.log.Debug("a background job is not known", "error", err)
		return false
	}
	return true
}

// lastOutput returns the last lines of a job that the model has not read, as long as
// there is room for them.
func (n *jobNews) lastOutput(ctx context.Context, job Job, read int64) string {
	if n.silent || job.Printed <= read || n.size >= noticedTotal {
		return ""
	}
	out, err := n.read(ctx, job.ID, max(read, job.Printed-jobtrack.Window/4))
	n.silent = err != nil
	return cut.Tail(cut.LastLines(plain.Clean(out.Text), noticedLines), noticedOutput)
}

// read reads the output of a job without starting a runtime.
func (n *jobNews) read(ctx context.Context, id string, offset int64) (JobOutput, error) {
	runner, ok := RuntimeAs[JobRunner](n.of.runtime)
	if !ok {
		return JobOutput{}, ErrUnknownJob
	}
	return safecall.Outlive(ctx, func() (JobOutput, error) {
		defer n.of.calls.enter(&n.of.calls.calling, "the runtime's JobOutput")()
		if rt, ours := runner.(*workspaceRuntime); ours {
			return jobOutputOf(rt.KnownJobOutput(ctx, id, offset))
		}
		return runner.JobOutput(ctx, id, offset, 0)
	})
}

// String joins the notices.
func (n *jobNews) String() string {
	if n.more > 0 {
		n.notices = append(n.notices, "[and of "+numeral.Count(n.more, "more job")+" there is news: see job_list]")
	}
	return strings.Join(n.notices, "\n")
}
