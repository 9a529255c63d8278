package treedir

import (
	"context"
	"io"
)

// Target is a tree that can be changed: a directory of this machine, or one
// that is seen through a guest.
type Target interface {
	// ID tells the target from others, also after a new start: for instance,
	// the absolute path of its directory.
	ID() string
	// Make makes one step. content reads what a new file has in it. If what is
	// there is neither the step's Old nor its New, nothing is changed, and the
	// error is a [*ConflictError]. A step that is made already is no error.
	Make(ctx context.Context, step Step, content io.Reader) error
	// Sync puts all steps on stable storage.
	Sync(ctx context.Context) error
}

// Step is a change to be made to a target.
type Step struct {
	Change
	// Times gives a new file the time that it had. Without it a file is as old
	// as the step, so that builds see it.
	Times bool
	// Aside is a name for a temporary file in the same directory, which nobody
	// else uses. The same step has the same.
	Aside string
	// Again says that the step was perhaps begun before, and left its temporary
	// files.
	Again bool
}

// Conflict is a change that was not made.
type Conflict struct {
	Name string
	Why  string
	// Kept is the name of a file with what was there, if it could not be put
	// back. It is empty otherwise: then it is where it was.
	Kept string
}

// ConflictError is the error of a step that was not made because something else
// is there than the store knows of.
type ConflictError struct {
	Why  string
	Kept string // see Conflict
}

// Error returns why.
func (e *ConflictError) Error() string { return e.Why }
