package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/x/pygent/internal/screen"
)

// output is a writer that remembers its first error, so that lost output does
// not look like success. After an error it writes nothing more.
type output struct {
	w      io.Writer
	failed func(error) // called once, with the first error; may be nil

	mu     sync.Mutex // guards what follows, and keeps writes apart
	err    error
	leaves bool // the reader may leave when it has seen enough
}

func newOutput(w io.Writer, failed func(error)) *output {
	return &output{w: w, failed: failed}
}

// Write writes unless an earlier write failed.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if o.err = err; err != nil && o.failed != nil {
		o.failed(err)
	}
	return n, err
}

// readerMayLeave says that what is written now is a listing, of which a reader such as
// head takes what it wants: that it goes away is no failure.
func (o *output) readerMayLeave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaves = true
}

// lost returns the first error of a write.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && !(o.leaves && errors.Is(o.err, syscall.EPIPE)) {
		return fmt.Errorf("write to standard output: %w", o.err)
	}
	return nil
}

// println writes a line; the error is remembered.
func (o *output) println(args ...any) {
	_, _ = fmt.Fprintln(o, args...)
}

// warn tells the user on standard error of a problem that does not change the
// outcome.
func warn(text string) {
	complain("warning:", text)
}

// complain writes a line to standard error. If that fails, there is nobody to
// tell.
func complain(args ...any) {
	_, _ = fmt.Fprintln(screen.Stderr(), append([]any{"pygent:"}, args...)...)
}
