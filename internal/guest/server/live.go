package server

import (
	"io"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// maxBehind is how far the sending of a command's output may fall behind, in
// bytes, before it goes on with the newest.
const maxBehind = 4 * wire.MaxLive

// live sends a command's output while it is produced, at the pace and in the
// pieces that the protocol sets. What does not fit is left out. The returned
// function sends the newest output, ends the sending and waits for that.
func live(w io.Writer, output *capture) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTimer(wire.LiveEvery)
		defer pace.Stop()
		for offset, last := int64(0), false; !last; {
			select {
			case <-quit:
			case <-output.after(offset):
			}
			select {
			case <-quit:
				last = true
			case <-pace.C:
			}
			n, err := sendLive(w, output, offset, last)
			if err != nil || n == 0 {
				return // nobody listens, or the output has ended
			}
			offset += n
			pace.Reset(wire.LiveEvery)
		}
	}()
	return func() { close(quit); <-done }
}

// sendLive sends a piece of output that begins at offset or, when that is too far
// behind, with the newest. It returns how far the output was passed.
func sendLive(w io.Writer, output *capture, offset int64, last bool) (passed int64, err error) {
	from, behind := offset, int64(maxBehind)
	if last {
		behind = wire.MaxLive
	}
	if size := output.size(); size-from > behind {
		from = size - wire.MaxLive
	}
	at, data := output.read(from, wire.MaxLive)
	if len(data) == 0 {
		return 0, nil
	}
	err = wire.WriteFrame(w, wire.KindChunk, &wire.Chunk{Offset: at, Data: data})
	return at + int64(len(data)) - offset, err
}
