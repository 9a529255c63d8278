package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// DefaultGrace is the time between TERM and KILL.
const DefaultGrace = 200 * time.Millisecond

// Command is a script to run.
type Command struct {
	Script  string
	Dir     string        // relative to the workspace, or absolute
	Env     []string      // "NAME=value", added to the session's
	Timeout time.Duration // 0 for none
	// Grace is the time between TERM and KILL at the time limit; default
	// [DefaultGrace], negative for none.
	Grace time.Duration
	// Head and Tail are how many bytes of the output are kept at most, 16 KiB
	// each by default.
	Head, Tail int
	// GoOn lets the command go on as a job when its time limit has passed.
	GoOn bool
	// JobsAfter is the number of the last job: one that the command becomes gets a
	// higher one as its id.
	JobsAfter int64
	// OnOutput, if set, is called with the output while the command runs, in order
	// and at the pace of [wire.LiveEvery]. offset is the position of data, at most
	// [wire.MaxLive] bytes, in the whole output; what is printed faster is left
	// out. Run calls it from its own goroutine, and waits for it; Start never calls
	// it.
	OnOutput func(offset int64, data []byte)
}

// Process is a process inside.
type Process struct {
	PID  int
	Name string
}

// Result is how a command ended.
type Result struct {
	ExitCode  int    // the shell's status; 128+n when signal n ended it; -1 when unknown
	Signal    int    // the signal that ended the shell, or 0
	TimedOut  bool   // ended at its time limit
	Cancelled bool   // ended because ctx was cancelled
	Head      []byte // the first bytes of the output
	Tail      []byte // the last bytes; Omitted bytes before them were left out
	Omitted   int64  // 0 if Tail follows Head at once
	Total     int64  // bytes of output in all; if it is more than Head, Omitted and Tail, others were overwritten on their line
	Spill     string // path inside of a file with the first SpillSize bytes of the output, if any were omitted
	SpillSize int64
	Duration  time.Duration
	// Left are at most 64 of the processes that the command left running.
	// LeftCount is the number of all of them. The job with the id Job owns them.
	Left      []Process
	LeftCount int
	Job       string
	// GoesOn says that the command's time limit has passed, and that the command
	// goes on as Job. The output of that goes on at Total.
	GoesOn bool
	// Survivors is the number of processes that could not be killed. Only the end
	// of the container ends them.
	Survivors int
}

// Run runs a command and waits for it. When ctx ends, the command is killed, and
// Run returns what is known together with the cause of ctx. If the guest does not
// answer although the command must have ended, it is given up and the error is
// [ErrUnresponsive].
func (c *Client) Run(ctx context.Context, cmd Command) (Result, error) {
	// The exchange outlives ctx by the time that it takes to kill the command.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	if ctx.Err() != nil {
		return Result{ExitCode: -1}, context.Cause(ctx)
	}
	request := cmd.request()
	request.Env = c.withEnv(request.Env)
	x, err := c.openBefore(ctx, life, wire.KindRun, request)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Result{ExitCode: -1}, fmt.Errorf("run a command: %w", err)
	}
	defer x.close()
	defer c.pausable(x)()
	stop := c.cancelWith(ctx, x, end, request.Grace)
	defer stop()
	r, err := x.result(cmd.OnOutput)
	switch {
	case ctx.Err() != nil && err == nil && r.GoesOn: // the limit passed just before ctx ended
		_, _ = c.Kill(context.WithoutCancel(ctx), r.Job, cmd.Grace)
		return r, context.Cause(ctx)
	case ctx.Err() != nil && (err != nil || r.Cancelled):
		return r, context.Cause(ctx)
	case err != nil:
		return r, fmt.Errorf("run a command: %w", err)
	default:
		return r, nil
	}
}

// cancelWith has the guest kill the command when ctx ends, and gives the exchange
// up if the guest does not answer even then. The returned function ends this and
// waits for its goroutines.
func (c *Client) cancelWith(ctx context.Context, x *exchange, giveUp func(), grace time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	stopFunc := context.AfterFunc(ctx, func() {
		defer close(done)
		c.spawn(func() { _ = wire.WriteFrame(x.stream, wire.KindCancel, nil) })
		timer := time.NewTimer(grace + c.patience)
		defer timer.Stop()
		select {
		case <-quit:
		case <-timer.C:
			c.desert()
			giveUp()
		}
	})
	return func() {
		close(quit)
		if !stopFunc() {
			<-done
		}
	}
}

// request returns the command as a message of the protocol.
func (cmd *Command) request() *wire.Run {
	grace := cmd.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	return &wire.Run{
		Script: []byte(cmd.Script), Dir: cmd.Dir, Env: cmd.Env,
		Timeout: max(cmd.Timeout, 0), Grace: max(grace, 0),
		Head: clamp(cmd.Head), Tail: clamp(cmd.Tail), Live: cmd.OnOutput != nil,
		GoOn: cmd.GoOn && cmd.Timeout > 0, JobsAfter: cmd.JobsAfter,
	}
}

func clamp(n int) int { return min(max(n, 0), wire.MaxKept) }

// result reads the output and the result of a command.
func (x *exchange) result(onOutput func(int64, []byte)) (Result, error) {
	m := &wire.Result{}
	if err := x.reply(onOutput, m); err != nil {
		return Result{ExitCode: -1}, err
	}
	return resultOf(m), nil
}

// reply reads an answer into m, and passes the output before it to onOutput. If
// that is nil, there must be none.
func (x *exchange) reply(onOutput func(int64, []byte), m wire.Message) error {
	for next := int64(0); ; {
		kind, payload, err := wire.ReadFrame(x.stream, wire.MaxReply)
		if err != nil {
			return x.check(unexpected(err))
		}
		if kind != wire.KindChunk || onOutput == nil {
			return wire.DecodeReply(kind, payload, m)
		}
		chunk, err := liveChunk(payload, next)
		if err != nil {
			return err
		}
		onOutput(chunk.Offset, chunk.Data)
		next = chunk.Offset + int64(len(chunk.Data))
	}
}

// liveChunk decodes a piece of output that must not begin before next.
func liveChunk(payload []byte, next int64) (*wire.Chunk, error) {
	chunk := &wire.Chunk{}
	if err := wire.Decode(payload, chunk); err != nil {
		return nil, err
	}
	if len(chunk.Data) > wire.MaxLive || chunk.Offset < next || chunk.Offset > math.MaxInt64-wire.MaxLive {
		return nil, fmt.Errorf("%w: %d bytes of output at %d", wire.ErrMalformed, len(chunk.Data), chunk.Offset)
	}
	return chunk, nil
}

func resultOf(m *wire.Result) Result {
	return Result{
		ExitCode: m.ExitCode, Signal: m.Signal, TimedOut: m.TimedOut, Cancelled: m.Cancelled,
		Head: m.Head, Tail: m.Tail, Total: m.Total,
		Omitted: max(m.Total-max(m.Gone, 0)-int64(len(m.Head))-int64(len(m.Tail)), 0),
		Spill:   m.Spill, SpillSize: m.SpillSize, Duration: m.Duration,
		Left: processes(m.Left), LeftCount: m.LeftCount, Job: m.Job, GoesOn: m.GoesOn && m.Job != "", Survivors: m.Survivors,
	}
}

func processes(procs []wire.Proc) []Process {
	var list []Process
	for _, p := range procs {
		list = append(list, Process(p))
	}
	return list
}

// Job is a command in the background, or the processes that a command left
// behind.
type Job struct {
	ID       string
	Command  string // the beginning of its script
	Running  bool   // the shell or another process is alive, or output is still arriving
	Exited   bool   // the shell has ended; ExitCode and Signal say how
	ExitCode int
	Signal   int
	TimedOut bool
	Killed   bool  // [Client.Kill] ended it
	Total    int64 // bytes of output so far
	Duration time.Duration
	Spill    string // path inside of a file with the whole output; set once the output is long
	// Processes are at most 64 of the processes that are alive. Count is the
	// number of all of them.
	Processes []Process
	Count     int
}

func jobOf(m *wire.Job) Job {
	return Job{
		ID: m.ID, Command: m.Command, Running: m.Running, Exited: m.Exited,
		ExitCode: m.ExitCode, Signal: m.Signal, TimedOut: m.TimedOut, Killed: m.Killed, Total: m.Total,
		Duration: m.Duration, Spill: m.Spill, Processes: processes(m.Procs), Count: m.Count,
	}
}

// Start starts a command in the background. It ends at its time limit, if it has
// one, and with the guest at the latest.
func (c *Client) Start(ctx context.Context, cmd Command) (Job, error) {
	request := cmd.request()
	request.Env = c.withEnv(request.Env)
	request.Background, request.Live, request.GoOn = true, false, false
	m := &wire.Job{}
	if err := c.call(ctx, wire.KindRun, request, m); err != nil {
		return Job{}, fmt.Errorf("start a job: %w", err)
	}
	return jobOf(m), nil
}

// Jobs returns the running jobs and the most recently ended ones, the oldest
// first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	m := &wire.Jobs{}
	if err := c.call(ctx, wire.KindJobs, nil, m); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var list []Job
	for i := range m.Jobs {
		list = append(list, jobOf(&m.Jobs[i]))
	}
	return list, nil
}

// Output is a piece of a job's output.
type Output struct {
	Data    []byte
	Next    int64 // the offset of the next piece
	Skipped int64 // bytes before Data that are no longer available
	Job     Job   // the job's state; once it is not Running and Data is empty, no more output comes
}

// Output returns at most limit bytes (1 MiB if 0) of a job's output from offset
// on. If there is nothing new, it waits for at most wait.
func (c *Client) Output(ctx context.Context, job string, offset int64, limit int, wait time.Duration) (Output, error) {
	m := &wire.Output{}
	request := &wire.OutputRequest{Job: job, Offset: max(offset, 0), Limit: max(limit, 0), Wait: max(wait, 0)}
	if err := c.call(ctx, wire.KindOutput, request, m); err != nil {
		return Output{}, fmt.Errorf("read a job's output: %w", err)
	}
	return Output{
		Data:    m.Chunk.Data,
		Next:    max(m.Chunk.Offset, 0) + int64(len(m.Chunk.Data)),
		Skipped: max(m.Chunk.Offset-request.Offset, 0),
		Job:     jobOf(&m.Job),
	}, nil
}

// Kill ends a job with all its processes. It sends TERM, waits for the grace
// ([DefaultGrace] if 0, none if negative) and then sends KILL. It returns when
// the processes are gone.
func (c *Client) Kill(ctx context.Context, job string, grace time.Duration) (Job, error) {
	if grace == 0 {
		grace = DefaultGrace
	}
	m := &wire.Job{}
	if err := c.call(ctx, wire.KindKill, &wire.Kill{Job: job, Grace: max(grace, 0)}, m); err != nil {
		return Job{}, fmt.Errorf("kill a job: %w", err)
	}
	return jobOf(m), nil
}

// unexpected turns io.EOF into an error that nobody can mistake for a regular
// end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
