package sandbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/survey"
)

// Commander runs commands in a workspace. It is the seam between a sandbox,
// which owns the workspace, the environment and the limits, and the way in
// which commands are run: a guest on this machine, a guest or a plain exec in a
// container.
//
// Implementations are safe for concurrent use.
type Commander interface {
	// Run runs one command to its end. It stops the command, with everything
	// that it started, when its Timeout has passed or ctx ends, and returns
	// only then. The time limit is counted from the command's own start. A
	// time limit is a result, the end of ctx is an error beside what is known.
	Run(ctx context.Context, cmd Command) (Result, error)

	// Shell says whether commands run under "bash" or "sh". It waits until
	// that is known or ctx ends, and answers "" when it is not.
	Shell(ctx context.Context) string

	// Guest returns the guest that commands run under, starting it if need be.
	// Without one, for good, the error is [ErrNoGuest].
	Guest(ctx context.Context) (*guest.Client, error)

	// Close stops what runs and releases everything. No run is in progress and
	// none follows. It is called once.
	Close() error
}

// Surveyor is a [Commander] that can tell what commands find where they run.
type Surveyor interface {
	// Machine returns what is known by now. It waits for nothing and starts nothing.
	Machine() (m survey.Machine, known bool)

	// Aside runs a command that is not the user's or the model's: what they are to
	// be told of, as that a container is new, stays for their own commands. It waits
	// for a container that is being started, but starts none.
	Aside(ctx context.Context, cmd Command) (Result, error)
}

// Command is a command. A [Commander] gets it checked and complete.
type Command struct {
	Script    string        // of any size, without NUL bytes
	Dir       string        // slash-separated, relative to the workspace, "." for itself
	Env       []string      // added to the environment of the place it runs in; later ones win
	Timeout   time.Duration // none when negative; of a job also none when zero
	MaxOutput int           // bytes of output to keep
	Raw       bool          // keep output that is no UTF-8; read by [Sandbox.Bash]
	GoOn      bool          // at the time limit, go on as a job where there can be jobs

	jobsAfter int64 // the number of the last job

	// Output gets the output while the command runs, as [Sandbox.Bash] calls it;
	// nil for none. Live is the same for a [Commander], which passes on what it
	// reads: data lies at an offset of the whole output, and pieces come in order,
	// from one goroutine. It neither fails nor waits, and keeps nothing of data.
	Output func(Chunk)
	Live   func(offset int64, data []byte)
}

// Result is what a command did.
type Result struct {
	Output    string // stdout and stderr in their true order, as they were printed; head and tail when Truncated
	ExitCode  int    // the shell's status; 128+n when signal n ended it, -1 when unknown
	TimedOut  bool   // stopped at its time limit
	Duration  time.Duration
	Truncated bool         // Output leaves out its middle
	Omitted   int64        // bytes left out
	FullPath  string       // where commands can read the whole output
	Note      string       // what else is worth knowing
	Refused   []egress.Use // hosts that were refused while it ran, by this command or others

	// Job is what runs of the command after its end, or at its time limit; empty for
	// nothing. GoesOn says that it is the command itself, which had printed Printed
	// bytes.
	Job     string
	GoesOn  bool
	Printed int64

	left  *guest.Client // that has the job; nil for none
	keeps *guest.Client // who has the file at FullPath
}

// KillGrace is how long a command may take to end after SIGTERM.
const KillGrace = 500 * time.Millisecond

// MaxKeptOutput is how many bytes of a command's output can be kept at most.
const MaxKeptOutput = 16 << 20

// Deadline returns a context that also ends at the command's time limit, with
// the cause [ErrTimeLimit].
func (s Command) Deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.Timeout, ErrTimeLimit)
}

// Unanswered is the result of a command that began at the given time, and whose
// end nobody will hear of.
func (s Command) Unanswered(begun time.Time) Result {
	took := time.Since(begun)
	return Result{ExitCode: -1, Duration: took, TimedOut: s.Timeout >= 0 && took >= s.Timeout}
}

// ErrTimeLimit is the cause of a context that ended at a command's time limit.
var ErrTimeLimit = fmt.Errorf("time limit of the command: %w", context.DeadlineExceeded)

// commandEnv are the variables that every command gets. They keep programs from
// asking questions and from starting a pager, since nobody would answer.
func commandEnv() []string {
	return []string{
		"TERM=dumb",
		"NO_COLOR=1",
		"PAGER=cat",
		"GIT_PAGER=cat",
		"MANPAGER=cat",
		"EDITOR=false",
		"VISUAL=false",
		"GIT_EDITOR=false",
		"GIT_TERMINAL_PROMPT=0",
		"DEBIAN_FRONTEND=noninteractive",
	}
}

// withGitConfig adds settings, as names and values, to git's configuration in
// env. Those that env has already are kept.
func withGitConfig(env []string, settings ...[2]string) []string {
	n := 0
	for _, v := range env {
		if count, ok := strings.CutPrefix(v, "GIT_CONFIG_COUNT="); ok {
			if _, err := fmt.Sscanf(count, "%d", &n); err != nil || n < 0 {
				n = 0
			}
		}
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n+i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n+i, s[1]))
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+len(settings)))
}

// SetOutput sets the output of a result from its two ends.
func (r *Result) SetOutput(head, tail []byte, omitted int64) {
	if omitted > 0 {
		// Characters that the cut goes through count as left out.
		h, t := cut.TrimEnd(head), cut.TrimStart(tail)
		omitted += int64(len(head) - len(h) + len(tail) - len(t))
		head, tail = h, t
	}
	var s strings.Builder
	s.Grow(len(head) + len(tail) + 64)
	s.Write(head)
	if omitted > 0 {
		r.Truncated, r.Omitted = true, omitted
		fmt.Fprintf(&s, "\n[... %d bytes left out ...]\n", omitted)
	}
	s.Write(tail)
	r.Output = s.String()
}

// validUTF8 replaces what is no UTF-8.
func validUTF8(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// ResolveEnv checks variables, and fills in those given by name alone.
func ResolveEnv(env []string) ([]string, error) {
	var out []string
	for _, v := range env {
		name, _, ok := strings.Cut(v, "=")
		if name == "" || strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("environment variable %q: want NAME=value", v)
		}
		if ok {
			out = append(out, v)
		} else if value, set := os.LookupEnv(name); set {
			out = append(out, name+"="+value)
		}
	}
	return out, nil
}
