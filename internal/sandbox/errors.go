package sandbox

import (
	"errors"
	"strings"
	"sync"
)

var (
	// ErrStart is the error of a sandbox that cannot start as it is configured.
	// Trying again would not help.
	ErrStart = errors.New("the runtime cannot start")
	// ErrClosed is returned after Cleanup.
	ErrClosed = errors.New("the runtime is closed")
	// ErrUnprotected is the error of a machine that cannot confine commands, where
	// they must be. It comes with ErrStart.
	ErrUnprotected = errors.New("commands cannot be confined on this machine")
)

// ErrNotReady is matched by the error of a command that could not begin, since what runs
// commands could not be started or reached, for a reason that may pass.
var ErrNotReady = errors.New("no command can run now")

// NotReady returns an error that says what err says, and matches [ErrNotReady].
func NotReady(err error) error { return notReady{err} }

type notReady struct{ error }

// Is matches [ErrNotReady].
func (notReady) Is(target error) bool { return target == ErrNotReady }

// Unwrap returns the cause.
func (e notReady) Unwrap() error { return e.error }

// errNilContext refuses a nil context, which would panic later.
var errNilContext = errors.New("the context is nil")

// CannotRun says why no command can run, for people in a session, and what they can
// do about it.
func CannotRun(err error) string {
	text := startCause(err)
	if errors.Is(err, ErrStart) && strings.Contains(text, "pull image") {
		text += ". PYGENT_IMAGE or --image names another image; PYGENT_USE_DOCKER=0 or --no-docker runs commands on this machine"
	}
	return text
}

// startCause is why a runtime cannot start, without who has asked it to.
func startCause(err error) string {
	if _, cause, found := strings.Cut(err.Error(), ErrStart.Error()+": "); found {
		return cause
	}
	return err.Error()
}

// StartFailure has a session say once why no command can run: it is long, and each
// command would repeat it. It is safe for concurrent use.
type StartFailure struct {
	mu   sync.Mutex
	told string // the cause that was said
}

// Tell calls say with what [CannotRun] says of an error of a start, unless that was
// said already. Two at once are told one after the other.
func (f *StartFailure) Tell(err error, say func(why string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cause := startCause(err); cause != f.told {
		f.told = cause
		say(CannotRun(err))
	}
}

// Without returns a text in which a runtime cannot start, without the cause that was
// said.
func (f *StartFailure) Without(text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == "" {
		return text
	}
	return strings.ReplaceAll(text, ErrStart.Error()+": "+f.told, ErrStart.Error())
}
