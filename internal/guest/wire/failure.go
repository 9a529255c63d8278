package wire

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/tree"
)

// Errors, in addition to those of package fs, that a [Failure] can stand for.
var (
	ErrEscapes    = errors.New("path leads out of the workspace")
	ErrNotRegular = tree.ErrNotRegular
	ErrNoJob      = errors.New("no such job")
	ErrProcesses  = errors.New("no more processes can be started")
	ErrRefused    = errors.New("nothing listens on the port")
	ErrLimit      = errors.New("limit exceeded")
	ErrVersion    = errors.New("guest and host are of different versions")
)

// failures lists the errors that keep their identity over the wire. The code of
// an error is its index plus 1. Any other code means an error of which only the
// text is known.
var failures = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid,
	ErrEscapes, ErrNotRegular, ErrNoJob, ErrProcesses, ErrRefused, ErrLimit, ErrVersion,
	ErrMalformed, context.Canceled, tree.ErrTooLarge,
}

// Failure is an error as it is sent over the wire. errors.Is finds the error
// that it stands for.
type Failure struct {
	Code int
	Text string
}

// AsFailure converts err for the wire. Its text is cut if it is too long.
func AsFailure(err error) *Failure {
	if f, ok := err.(*Failure); ok {
		return f
	}
	f := &Failure{Text: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	if len(f.Text) > maxText {
		f.Text = f.Text[:maxText]
	}
	err = identify(err)
	for i, known := range failures {
		if errors.Is(err, known) {
			f.Code = i + 1
			break
		}
	}
	return f
}

// identify wraps errors that the standard library does not export, so that
// errors.Is finds their meaning.
func identify(err error) error {
	var call *os.SyscallError
	dialled := errors.As(err, &call) && call.Syscall == "connect"
	switch {
	case errors.Is(err, syscall.EAGAIN) && !dialled:
		return errors.Join(err, ErrProcesses)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errors.Join(err, fs.ErrInvalid)
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.Join(err, ErrRefused)
	case strings.Contains(err.Error(), "path escapes from parent"):
		return errors.Join(err, ErrEscapes)
	default:
		return err
	}
}

// Error returns the text that the other side sent.
func (f *Failure) Error() string { return f.Text }

// Unwrap returns the error that the failure stands for, or nil.
func (f *Failure) Unwrap() error {
	if f.Code < 1 || f.Code > len(failures) {
		return nil
	}
	return failures[f.Code-1]
}

// Fields implements [Message].
func (f *Failure) Fields(c *Codec) {
	c.Small(&f.Code)
	c.String(&f.Text, maxText)
}
