package sandbox

import (
	"errors"
	"strings"
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

// errNilContext refuses a nil context, which would panic later.
var errNilContext = errors.New("the context is nil")

// CannotRun says why no command can run, for people in a session, and what they can
// do about it.
func CannotRun(err error) string {
	text := strings.TrimPrefix(err.Error(), ErrStart.Error()+": ")
	if errors.Is(err, ErrStart) && strings.Contains(text, "pull image") {
		text += ". PYGENT_IMAGE or --image names another image; PYGENT_USE_DOCKER=0 or --no-docker runs commands on this machine"
	}
	return text
}
