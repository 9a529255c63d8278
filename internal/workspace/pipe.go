package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// errTaken tells a writer that nobody reads any more, for a reason of the
// reader's own.
var errTaken = errors.New("the reader has stopped")

// Pipe has take read what fill writes, and waits for both. The end of ctx ends
// both, unless take had what it wanted by then. The error is that of the one who
// failed first.
func Pipe(ctx context.Context, fill func(io.Writer) error, take func(io.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	defer stop()
	filled := make(chan error, 1)
	go func() {
		err := fill(w)
		_ = w.CloseWithError(err)
		filled <- err
	}()
	taken := take(r)
	late := taken == nil && !stop() // so that ctx can only have cut off padding
	if taken == nil {
		_, taken = io.Copy(io.Discard, r) // padding
	}
	_ = r.CloseWithError(errTaken)
	failed := <-filled
	switch {
	case late:
		return nil
	case ctx.Err() != nil && (failed != nil || taken != nil):
		return ctx.Err()
	case errors.Is(failed, errTaken):
		return taken
	}
	return cmp.Or(failed, taken)
}
