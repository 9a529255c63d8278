package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/jobtrack"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/safecall"
)

type bashInput struct {
	bashCommand
	Background bool `json:"background,omitempty" jsonschema:"do not wait: return a job id for job_output and job_kill; without a time limit unless timeout is given. A command without timeout becomes such a job after 120 seconds"`
}

// bashCommand is the part of bash that every runtime can serve.
type bashCommand struct {
	Cmd     string  `json:"cmd" jsonschema:"the command, or a whole script"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"time limit in seconds, at most 600; default 120"`
	Cwd     string  `json:"cwd,omitempty" jsonschema:"directory to run in, relative to the workspace"`
}

// endsBefore is how long before the end of its step or run a command is ended, so
// that its result can still be given.
const endsBefore = 2 * time.Second

// errStepEnds is why a command was ended before its own limit.
var errStepEnds = errors.New("it was ended because the time of its step, or of the run, is almost over; run what takes long with background")

func runBash(ctx context.Context, rt Runtime, in bashInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Cmd) == "" {
		return nil, errors.New("cmd is empty")
	}
	if in.Timeout < 0 {
		return nil, errors.New("timeout must not be negative")
	}
	timeout := min(secondsOf(in.Timeout), MaxBashTimeout)
	if in.Background {
		return startJob(ctx, rt, in.Cmd, BashTimeout(timeout), BashDir(in.Cwd))
	}
	opts := []BashOption{BashTimeout(cmp.Or(timeout, BashToolTimeout)), BashDir(in.Cwd), BashRaw()}
	if timeout == 0 && canReadJobs(ctx, rt) {
		opts = append(opts, BashGoesOn())
	}
	limited, cancel := safecall.Before(ctx, endsBefore, errStepEnds)
	defer cancel()
	r, err := rt.Bash(limited, in.Cmd, withLiveOutput(limited, opts...)...)
	noTime := err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errStepEnds)
	if err != nil && r.Output == "" && !noTime {
		return nil, err
	}
	r.Command = in.Cmd
	followJob(ctx, r.Job, in.Cmd, max(r.Printed-int64(openEnd(r)), 0))
	result := bashResult(r)
	if secondsOf(in.Timeout) > MaxBashTimeout {
		result.note(fmt.Sprintf("[the timeout was cut to %g seconds, the most there is; use background for longer work]", MaxBashTimeout.Seconds()))
	}
	switch {
	case noTime:
		result.note("[did not finish: " + errStepEnds.Error() + "]")
		result.IsError = true
	case err != nil:
		result.note(fmt.Sprintf("[did not finish: %v]", err))
		result.IsError = true
	}
	return result, nil
}

// bashResult describes how a command ended. The model is shown the output as it
// looks in the end, programs get it as it was printed.
func bashResult(r BashResult) *ToolResult {
	shown, whole := r, r
	shown.Output = cut.Middle(plain.Clean(r.Output[:len(r.Output)-openEnd(r)]), maxToolResult)
	whole.Output = strings.ToValidUTF8(r.Output, string(utf8.RuneError))
	compared := shown
	compared.FullPath, compared.Duration, compared.Job = "", 0, ""
	result := &ToolResult{Bash: &whole, compared: compared.Text()}
	if len(r.Command) > shownCommand {
		result.Display = shown.Text()
		shown.Command = cut.Head(r.Command, shownCommand) + " …"
	}
	result.Content = shown.Text()
	if (r.ExitCode != 0 || r.TimedOut) && !r.GoesOn {
		result.Outcome = OutcomeFailed
	}
	return result
}

// openEnd returns how many bytes at the end of the output belong to a character or
// an escape sequence of which the job prints the rest.
func openEnd(r BashResult) int {
	if !r.GoesOn {
		return 0
	}
	return plain.Open(r.Output)
}

// note adds a line to what is shown of a result.
func (r *ToolResult) note(line string) {
	r.Content = strings.TrimSuffix(r.Content, "\n") + "\n" + line
	if r.Display != "" {
		r.Display = strings.TrimSuffix(r.Display, "\n") + "\n" + line
	}
}

// commandIn returns the command of a bash call; ok is false for other calls.
func commandIn(call ToolCall) (in bashInput, ok bool) {
	ok = call.Name == "bash" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in, ok
}

// jobRunner returns the runtime as a [JobRunner], or an error if it is none.
func jobRunner(rt Runtime) (JobRunner, error) {
	j, ok := RuntimeAs[JobRunner](rt)
	if !ok {
		return nil, errors.New("this runtime cannot run commands in the background")
	}
	return j, nil
}

// canReadJobs reports whether the model of a call can follow a job of the runtime.
func canReadJobs(ctx context.Context, rt Runtime) bool {
	if call := toolCallOf(ctx); call != nil {
		if _, err := call.agent.tools.lookup("job_output", rt); err != nil {
			return false
		}
	}
	return hasJobs(rt)
}

func startJob(ctx context.Context, rt Runtime, cmd string, opts ...BashOption) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	job, err := runner.StartJob(ctx, cmd, opts...)
	if err != nil {
		return nil, err
	}
	followJob(ctx, job.ID, cmd, 0)
	return &ToolResult{Content: jobtrack.Started(job.ID), Display: "started job " + job.ID}, nil
}

type jobOutputInput struct {
	ID     string  `json:"id" jsonschema:"the job's id"`
	Until  string  `json:"until,omitempty" jsonschema:"wait until it prints this text"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"seconds to wait for until or the job's end, at most 600; default 0, or 60 with until"`
	Tail   int     `json:"tail,omitempty" jsonschema:"show only so many last lines, older ones too"`
	Offset *int64  `json:"offset,omitempty" jsonschema:"begin at this byte instead"`
}

// jobIn returns the job that a call of job_output reads.
func jobIn(call readCall) (id string, reads bool) {
	var in jobOutputInput
	reads = call.Name == "job_output" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in.ID, reads
}

// defaultUntilWait is how long a text is waited for.
const defaultUntilWait = 60 * time.Second

func jobOutput(ctx context.Context, rt Runtime, in jobOutputInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	switch {
	case err != nil:
		return nil, err
	case in.Wait < 0 || in.Tail < 0 || in.Offset != nil && *in.Offset < 0:
		return nil, errors.New("wait, tail and offset must not be negative")
	case len(in.Until) > jobtrack.MaxUntil:
		return nil, fmt.Errorf("until is longer than %d bytes", jobtrack.MaxUntil)
	}
	in.ID = knownJobs(ctx).Meant(in.ID)
	known, _ := knownJobs(ctx).Job(in.ID)
	read := jobtrack.Reader{Until: in.Until, At: known.Read, From: func(ctx context.Context, at int64, wait time.Duration) (jobtrack.Output, error) {
		out, err := runner.JobOutput(ctx, in.ID, at, wait)
		return jobtrack.Output{Text: out.Text, Next: out.Next, Skipped: out.Skipped, State: jobtrack.State(out.Job)}, err
	}}
	if in.Offset != nil {
		read.At = *in.Offset
	}
	wait := min(secondsOf(in.Wait), maxJobWait)
	if wait == 0 && in.Until != "" {
		wait = defaultUntilWait
	}
	limited, cancel := safecall.Before(ctx, endsBefore, errStepEnds)
	defer cancel()
	if err := read.Begin(limited, in.Tail > 0); err != nil {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	err = read.Follow(limited, wait)
	read.Early = err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errStepEnds)
	if err != nil && !read.Early {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	knownJobs(ctx).Read(in.ID, read.At)
	sawJob(ctx, Job(read.State))
	return &ToolResult{Content: read.Describe(in.Tail, wait, maxToolResult-shownCommand)}, nil
}

// nameJobs adds to the error about an unknown job which ones there are.
func nameJobs(ctx context.Context, runner JobRunner, id string, err error) error {
	if !errors.Is(err, ErrUnknownJob) {
		return err
	}
	if known, ok := knownJobs(ctx).Job(id); ok && known.Gone {
		err = fmt.Errorf("%w: %s", ErrUnknownJob, strings.Trim(known.Lost(), "[]"))
	}
	jobs, listErr := runner.Jobs(ctx)
	if listErr != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("%w; there are no jobs", err)
	}
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return fmt.Errorf("%w; the jobs are: %s", err, cut.Head(strings.Join(ids, ", "), shownCommand))
}

type jobListInput struct{}

func jobList(ctx context.Context, rt Runtime, _ jobListInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	jobs, err := runner.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return &ToolResult{Content: "no jobs"}, nil
	}
	var lines []string
	for _, j := range jobs {
		sawJob(ctx, j)
		lines = append(lines, j.String())
	}
	return &ToolResult{Content: strings.Join(lines, "\n")}, nil
}

type jobKillInput struct {
	ID string `json:"id" jsonschema:"the job's id"`
}

func jobKill(ctx context.Context, rt Runtime, in jobKillInput) (*ToolResult, error) {
	runner, err := jobRunner(rt)
	if err != nil {
		return nil, err
	}
	in.ID = knownJobs(ctx).Meant(in.ID)
	job, err := runner.KillJob(ctx, in.ID)
	if err != nil {
		return nil, nameJobs(ctx, runner, in.ID, err)
	}
	sawJob(ctx, job)
	return &ToolResult{Content: job.String()}, nil
}
