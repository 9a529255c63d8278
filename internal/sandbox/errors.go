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

// errNilContext refuses a nil context, which would panic later.
var errNilContext = errors.New("the context is nil")
