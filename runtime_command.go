package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guest"
)

// commander runs commands in a workspace. It is the seam between a runtime,
// which owns the workspace, the environment and the limits, and the way in
// which commands are run: a guest on this machine, a guest or a plain exec in a
// container.
//
// Implementations are safe for concurrent use.
type commander interface {
	// run runs one command to its end. It stops the command, with everything
	// that it started, when spec.Timeout has passed or ctx ends, and returns
	// only then. The time limit is counted from the command's own start. A
	// time limit is a result, the end of ctx is an error beside what is known.
	// The result's Command is set by the caller.
	run(ctx context.Context, spec commandSpec) (BashResult, error)

	// shell says whether commands run under "bash" or "sh". It waits until
	// that is known or ctx ends, and answers "" when it is not.
	shell(ctx context.Context) string

	// guest returns the guest that commands run under, starting it if need be.
	// Without one the error matches errors.ErrUnsupported.
	guest(ctx context.Context) (*guest.Client, error)

	// close stops what runs and releases everything. No run is in progress and
	// none follows. It is called once.
	close() error
}

// commandSpec is a command, checked and complete.
type commandSpec struct {
	script    string        // of any size, without NUL bytes
	dir       string        // slash-separated, relative to the workspace, "." for itself
	env       []string      // added to the environment of the place it runs in; later ones win
	timeout   time.Duration // none when negative
	maxOutput int           // bytes of output to keep
}

// Waiting times around the end of a command.
const (
	// killGrace is how long a command may take to end after SIGTERM.
	killGrace = 500 * time.Millisecond
	// leftoverGrace is how long output is still read when the shell has ended
	// but a process that it left behind holds the pipe.
	leftoverGrace = 100 * time.Millisecond
)

// maxKeptOutput bounds what a call may ask to keep of a command's output.
const maxKeptOutput = 16 << 20

// deadline returns a context that also ends at the command's time limit, with
// the cause errTimeLimit.
func (s commandSpec) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.timeout, errTimeLimit)
}

// errTimeLimit is the cause of a context that ended at a command's time limit.
var errTimeLimit = fmt.Errorf("time limit of the command: %w", context.DeadlineExceeded)

// stopped tells in the result or by an error why a context of deadline ended.
func stopped(ctx context.Context, res *BashResult) error {
	if errors.Is(context.Cause(ctx), errTimeLimit) {
		res.TimedOut = true
		return nil
	}
	return ctx.Err()
}

// commandEnv are the variables that every command gets. Nobody answers a
// question and nobody pages: programs that would ask are told not to.
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

// boundedOutput keeps the first and the last bytes written to it, and counts
// the rest. Its memory does not grow with what is written.
type boundedOutput struct {
	head, tail []byte // tail is a ring once it is full
	headMax    int
	tailMax    int
	start      int   // where the ring's oldest byte is
	total      int64 // bytes written
}

func newBoundedOutput(limit int) *boundedOutput {
	return &boundedOutput{headMax: (limit + 1) / 2, tailMax: limit / 2}
}

// Write takes all of p and never fails.
func (b *boundedOutput) Write(p []byte) (int, error) {
	n := len(p)
	b.total += int64(n)
	k := min(b.headMax-len(b.head), len(p))
	b.head = append(b.head, p[:k]...)
	p = p[k:]
	if len(p) > b.tailMax {
		p = p[len(p)-b.tailMax:]
	}
	k = min(b.tailMax-len(b.tail), len(p))
	b.tail = append(b.tail, p[:k]...)
	for p = p[k:]; len(p) > 0; p = p[k:] {
		k = copy(b.tail[b.start:], p)
		b.start = (b.start + k) % b.tailMax
	}
	return n, nil
}

// into sets the output of a result.
func (b *boundedOutput) into(r *BashResult) {
	tail := append(b.tail[b.start:len(b.tail):len(b.tail)], b.tail[:b.start]...)
	joinOutput(b.head, tail, b.total-int64(len(b.head))-int64(len(tail)), r)
}

// joinOutput sets the output of a result from its two ends.
func joinOutput(head, tail []byte, omitted int64, r *BashResult) {
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
	r.Output = strings.ToValidUTF8(s.String(), string(utf8.RuneError))
}
