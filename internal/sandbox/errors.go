package sandbox

import "errors"

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
