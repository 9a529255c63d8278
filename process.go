package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/sandbox"
)

// BashOption adjusts one call of [Runtime.Bash].
type BashOption func(*BashOptions)

// BashOptions are the settings of one command. Runtimes get them from
// [NewBashOptions].
type BashOptions struct {
	Timeout   time.Duration // default [DefaultBashTimeout]; negative means no limit but ctx
	Dir       string        // working directory, relative to the workspace; default the workspace
	Env       []string      // "NAME=value", added to the runtime's environment
	MaxOutput int           // bytes of output to keep; default [DefaultMaxOutput]

	// Output gets the output while the command runs; nil for none. See [BashOutput].
	Output func(OutputChunk)
}

// NewBashOptions applies opts to the defaults.
func NewBashOptions(opts ...BashOption) BashOptions {
	o := BashOptions{Timeout: DefaultBashTimeout, MaxOutput: DefaultMaxOutput}
	apply(&o, opts)
	return o
}

// BashTimeout limits the time of a command. Zero keeps the default, [NoLimit] or
// another negative duration means no limit but the context's.
func BashTimeout(d time.Duration) BashOption {
	return func(o *BashOptions) {
		if d != 0 {
			o.Timeout = d
		}
	}
}

// BashDir sets the directory a command starts in, relative to the workspace.
func BashDir(dir string) BashOption { return func(o *BashOptions) { o.Dir = dir } }

// BashEnv adds variables, each "NAME=value", to a command's environment.
func BashEnv(env ...string) BashOption {
	return func(o *BashOptions) { o.Env = append(o.Env, env...) }
}

// BashMaxOutput sets how many bytes of output are kept, half from its start
// and half from its end. Zero keeps the default. The most is 16 MiB, which
// [NoLimit] stands for.
func BashMaxOutput(n int) BashOption {
	return func(o *BashOptions) {
		switch {
		case n < 0:
			o.MaxOutput = sandbox.MaxKeptOutput
		case n > 0:
			o.MaxOutput = n
		}
	}
}

// BashResult is the outcome of a command.
type BashResult struct {
	Command  string        `json:"command"`
	Output   string        `json:"output"`              // stdout and stderr in the order they were written; head and tail when Truncated
	ExitCode int           `json:"exit_code"`           // the shell's status; 128+n when signal n ended it, -1 when unknown
	TimedOut bool          `json:"timed_out,omitempty"` // stopped at its time limit
	Duration time.Duration `json:"-"`                   // duration_seconds in JSON

	Truncated bool   `json:"truncated,omitempty"` // Output leaves out its middle
	Omitted   int64  `json:"omitted,omitempty"`   // bytes left out
	FullPath  string `json:"full_path,omitempty"` // where commands of the runtime, and its ReadFile, find the whole output
	Note      string `json:"note,omitempty"`      // other remarks: processes left behind, a container restarted

	// Refused are hosts that were refused while the command ran; if there were
	// many, only some of them. Commands that run at the same time share them.
	Refused []HostUse `json:"refused_hosts,omitempty"`
}

// ended returns how the command ended, without what it was and what it printed.
func (r *BashResult) ended() *BashResult {
	if r == nil {
		return nil
	}
	end := *r
	end.Command, end.Output, end.Refused = "", "", slices.Clone(r.Refused)
	return &end
}

// String formats the result for a model: "$ command", the output, and anything
// unusual.
func (r BashResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", r.Command, r.Output)
	line := func(format string, args ...any) {
		if s := b.String(); !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if r.FullPath != "" {
		line("[the whole output is in %s]", r.FullPath)
	}
	if r.TimedOut {
		line("[stopped at the time limit after %s; a longer timeout can be given]", r.Duration.Round(100*time.Millisecond))
	} else if r.ExitCode != 0 {
		line("[exit code %d]", r.ExitCode)
	}
	if r.Note != "" {
		line("[%s]", r.Note)
	}
	return b.String()
}

// MarshalJSON encodes the command's duration in seconds.
func (r BashResult) MarshalJSON() ([]byte, error) {
	type plain BashResult
	return json.Marshal(struct {
		plain
		Duration jsonobj.Seconds `json:"duration_seconds"`
	}{plain(r), jsonobj.Seconds(r.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *BashResult) UnmarshalJSON(data []byte) error {
	type plain BashResult
	in := struct {
		*plain
		Duration *jsonobj.Seconds `json:"duration_seconds"`
	}{(*plain)(r), (*jsonobj.Seconds)(&r.Duration)}
	return json.Unmarshal(data, &in)
}

// OutputChunk is a piece of what a command prints while it runs.
type OutputChunk struct {
	Offset  int64  `json:"offset"`            // the position of Text in the whole output, in bytes
	Text    string `json:"text"`              // at most 4 KiB of UTF-8; other bytes are replaced by U+FFFD
	Skipped int64  `json:"skipped,omitempty"` // bytes that were left out just before Text
}

// BashOutput passes what a command prints to f while it runs, stdout and stderr
// as in [BashResult].Output. What is printed faster than f can take it is left
// out: f is called at most ten times a second, with at most 4 KiB at a time. The
// result of the command is complete all the same.
//
// Calls come one at a time, in order, from a goroutine of the runtime, and the
// last one has the end of the output. f cannot hold the command up: if a call is
// still in progress a second after the command ended, Bash returns without it.
// No call begins after Bash returned. After a panic, which is logged, f is not
// called again. A job ([JobRunner]) ignores this option.
func BashOutput(f func(OutputChunk)) BashOption {
	return func(o *BashOptions) { o.Output = f }
}

// ErrUnknownJob is returned for a job that does not exist, or ran long ago.
var ErrUnknownJob = guest.ErrNoJob

// Job is a command in the background, or a group of processes that a command
// left running.
type Job struct {
	ID        string        `json:"id"`
	Command   string        `json:"command"`   // the beginning of the command
	Running   bool          `json:"running"`   // a process of it is alive
	ExitCode  int           `json:"exit_code"` // of its shell; -1 while that runs
	Printed   int64         `json:"printed"`   // bytes of output so far
	Duration  time.Duration `json:"-"`         // duration_seconds in JSON
	Processes int           `json:"processes"` // how many are alive
}

// String describes the job in one line.
func (j Job) String() string {
	state := fmt.Sprintf("running for %s, %d processes", j.Duration.Round(time.Second), j.Processes)
	if !j.Running {
		state = fmt.Sprintf("ended with exit code %d", j.ExitCode)
	}
	return fmt.Sprintf("job %s (%s): %s, %d bytes printed", j.ID, cut.Head(j.Command, 80), state, j.Printed)
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

// ProcessStarter is implemented by runtimes that can run a program to which a
// caller talks, such as a tool server or a language server.
type ProcessStarter interface {
	// StartProcess starts a command under a shell, as Bash does, and returns once
	// it runs. ctx bounds the start only: the process lives until its Close, or
	// until Cleanup of the runtime. It has no time limit unless [BashTimeout] sets
	// one; [BashMaxOutput] and [BashOutput] are ignored. It is none of the jobs of
	// a [JobRunner]. Where the platform cannot do it, the error matches
	// errors.ErrUnsupported.
	StartProcess(ctx context.Context, cmd string, opts ...BashOption) (Process, error)
}

// Process is a command that runs beside the caller. Reading gets its standard
// output, and writing goes to its standard input. Both may be done at the same
// time, and both wait for each other's side: a process that nobody reads from
// waits, and so does a caller whose process does not read. Close ends calls that
// wait. When the runtime loses its container or guest, the process is gone, and
// all calls return an error.
type Process interface {
	// Read returns io.EOF once the process, and whatever it left running with its
	// output, has ended or closed that.
	// Write to a process that has ended returns os.ErrProcessDone; what it never
	// read before is lost. Close ends the process with everything that it started,
	// first with SIGTERM, and returns when nothing of it is left; call it also
	// after Wait.
	io.ReadWriteCloser

	// CloseWrite ends the process's standard input. Reading goes on.
	CloseWrite() error

	// Wait waits until the command has ended, and returns the status of its shell:
	// 128+n when signal n ended it. It may be called more than once. A process
	// that writes much does not end before that was read. The error says why the
	// status is unknown; it is then -1.
	Wait() (exitCode int, err error)

	// Stderr returns the end of what the process has written to its standard error
	// so far, at most 32 KiB. While the process runs it may be a moment behind.
	Stderr() string
}

// StartProcess implements [ProcessStarter].
func (r *workspaceRuntime) StartProcess(ctx context.Context, cmd string, opts ...BashOption) (Process, error) {
	var o BashOptions // like a job, a process has no default limit
	apply(&o, opts)
	p, err := r.Sandbox.StartProcess(ctx, o.command(cmd))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// outputOf returns f for the sandbox, or nil. It is not called again after a
// panic.
func (r *workspaceRuntime) outputOf(f func(OutputChunk)) func(sandbox.Chunk) {
	if f == nil {
		return nil
	}
	broken := false
	return func(c sandbox.Chunk) {
		if broken {
			return
		}
		guard.Call(func() { f(OutputChunk(c)) }, func(err error) {
			broken = true
			logPanic(r.options.logger, "function of BashOutput", err)
		})
	}
}

// command returns cmd with the settings o.
func (o BashOptions) command(cmd string) sandbox.Command {
	return sandbox.Command{Script: cmd, Dir: o.Dir, Env: o.Env, Timeout: o.Timeout, MaxOutput: o.MaxOutput}
}
