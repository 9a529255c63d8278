package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// errTaken tells the writer that the reader has stopped for a reason of its
// own.
var errTaken = errors.New("the reader has stopped")

// Pipe lets take read what fill writes, and waits for both. If ctx ends, both
// end, unless take has finished by then. Pipe returns the error of the one that
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
	late := taken == nil && !stop() // so that only padding can be lost to the end of ctx
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
