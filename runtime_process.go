package pygent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/jobbook"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/plain"
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

	Raw    bool // keep output that is no UTF-8 as it is; see [BashRaw]
	GoesOn bool // a command that reaches its time limit goes on as a job; see [BashGoesOn]

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

// BashRaw keeps bytes of the output that are no UTF-8 as they were printed.
// Without it each run of them is replaced by U+FFFD.
func BashRaw() BashOption { return func(o *BashOptions) { o.Raw = true } }

// BashGoesOn lets a command that reaches its time limit go on as a job of the
// runtime, with all its processes: see [BashResult].Job. Its Timeout is then only
// how long it is waited for. A runtime that is no [JobRunner], or that cannot do
// this, ends the command at the limit.
func BashGoesOn() BashOption { return func(o *BashOptions) { o.GoesOn = true } }

// BashResult is the outcome of a command. Its Output is what was printed, escape
// sequences and all: show it to people through something that makes them harmless,
// and to models by String.
type BashResult struct {
	Command  string        `json:"command"`
	Output   string        `json:"output"`              // stdout and stderr in the order they were written; head and tail when Truncated
	ExitCode int           `json:"exit_code"`           // the shell's status; 128+n when signal n ended it, -1 when unknown
	TimedOut bool          `json:"timed_out,omitempty"` // stopped at its time limit
	Duration time.Duration `json:"-"`                   // duration_seconds in JSON

	Truncated bool   `json:"truncated,omitempty"` // Output leaves out its middle
	Omitted   int64  `json:"omitted,omitempty"`   // bytes left out
	FullPath  string `json:"full_path,omitempty"` // where commands of the runtime, and its ReadFile, find the whole output, or as much of its beginning as Note says
	Note      string `json:"note,omitempty"`      // other remarks: processes left behind, a container restarted

	// Job is the id of the job that has what still runs of the command: processes
	// that it left behind or, if GoesOn is set, the command itself. That was waited
	// for as long as its limit says, and had printed Printed bytes by then: its
	// output goes on at that offset of [JobRunner].JobOutput.
	Job     string `json:"job,omitempty"`
	GoesOn  bool   `json:"goes_on,omitempty"`
	Printed int64  `json:"printed,omitempty"`

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

// shownDuration is from how long on a result says how long the command took.
const shownDuration = 5 * time.Second

// String formats the result for a model: "$ command", the output, and anything
// unusual. Of the output it leaves what a terminal would show in the end:
// overwritten states of progress bars and escape sequences are left out, other
// control characters and bytes that are no UTF-8 are shown as escapes, and binary
// data becomes a line that says how much it was.
func (r BashResult) String() string {
	r.Output = plain.Clean(r.Output)
	return r.text()
}

// text is String for an output that has been cleaned.
func (r BashResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", r.Command, r.Output)
	line := func(format string, args ...any) {
		if s := b.String(); !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if strings.TrimSpace(r.Output) == "" {
		line("(no output%s)", map[bool]string{true: " so far"}[r.GoesOn])
	}
	if r.FullPath != "" {
		line("[the output is in %s]", r.FullPath)
	}
	switch took := r.took(); {
	case r.GoesOn:
		line("%s", jobbook.GoesOn(r.Job, r.Duration.Round(100*time.Millisecond)))
	case r.TimedOut:
		line("[stopped at the time limit after %s; a longer timeout can be given]", r.Duration.Round(100*time.Millisecond))
	case r.ExitCode != 0 && took != "":
		line("[exit code %d after %s]", r.ExitCode, took)
	case r.ExitCode != 0:
		line("[exit code %d]", r.ExitCode)
	case took != "":
		line("[took %s]", took)
	}
	if r.Note != "" {
		line("[%s]", r.Note)
	}
	return b.String()
}

// took says how long the command took, if it took long.
func (r BashResult) took() string {
	if r.Duration < shownDuration {
		return ""
	}
	return r.Duration.Round(time.Second / 10).String()
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
	return sandbox.Command{Script: cmd, Dir: o.Dir, Env: o.Env, Timeout: o.Timeout, MaxOutput: o.MaxOutput, Raw: o.Raw, GoOn: o.GoesOn}
}
