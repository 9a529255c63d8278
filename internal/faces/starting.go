package faces

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/safecall"
)

// Start starts the runtime of an agent before it is needed. It does nothing if that is not
// possible. It returns when ctx ends, even if the runtime does not.
func Start(ctx context.Context, agent *pygent.Agent) error {
	rt, ok := pygent.RuntimeAs[pygent.Starter](agent.Runtime())
	if !ok {
		return nil
	}
	_, err := safecall.Outlive(ctx, func() (struct{}, error) { return struct{}{}, rt.Start(ctx) })
	return err
}

// StartFailure has a session say once why no command can run: it is long, and each
// command would repeat it. It is safe for concurrent use.
type StartFailure struct {
	say func(why string)

	mu   sync.Mutex
	told string // the cause that was said
}

// NewStartFailure returns a StartFailure that says by say why no command can run, and what
// people can do about it. Two causes at once are said one after the other.
func NewStartFailure(say func(why string)) *StartFailure { return &StartFailure{say: say} }

// Tell says why no command can run, unless that was said already.
func (f *StartFailure) Tell(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cause := startCause(err)
	if cause == f.told {
		return
	}
	f.told = cause
	if errors.Is(err, pygent.ErrRuntimeStart) && strings.Contains(cause, "pull image") {
		cause += ". Choose another image with --image or PYGENT_IMAGE, or run commands on this machine with --no-docker or PYGENT_USE_DOCKER=0"
	}
	f.say(cause)
}

// Words returns an error in words. Why no command can run is said before, if it was not,
// and left out.
func (f *StartFailure) Words(err error) string {
	if errors.Is(err, pygent.ErrRuntimeStart) {
		f.Tell(err)
	}
	return f.Without(err.Error())
}

// Without returns a text in which a runtime cannot start, without the cause that was
// said.
func (f *StartFailure) Without(text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == "" {
		return text
	}
	return strings.ReplaceAll(text, pygent.ErrRuntimeStart.Error()+": "+f.told, pygent.ErrRuntimeStart.Error())
}

// startCause is why a runtime cannot start, without who has asked it to.
func startCause(err error) string {
	if _, cause, found := strings.Cut(err.Error(), pygent.ErrRuntimeStart.Error()+": "); found {
		return cause
	}
	return err.Error()
}

// IsOfStart reports whether an event of the runtime says how far the start of the
// container is. Others may come before that is over, and change nothing of it.
func IsOfStart(kind pygent.RuntimeEventKind) bool {
	switch kind {
	case pygent.RuntimeSilent, pygent.RuntimeLimited, pygent.RuntimeNetwork:
		return false
	}
	return true
}
