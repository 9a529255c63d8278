package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// readLimit is how long the sender of a body may pause. It also bounds how long the
// server waits for the rest of a body that nobody reads, as that of a request which is
// refused: until then it keeps the connection.
const readLimit = 30 * time.Second

// errTooSlow is the answer to a request whose body does not come.
var errTooSlow = fail(http.StatusRequestTimeout, "too_slow", "the request timed out")

// body is the body of a request. One that stops coming is not waited for.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

// newBody limits the time of what is read of a request from now on.
func newBody(w http.ResponseWriter, r *http.Request) *body {
	b := &body{r.Body, http.NewResponseController(w)}
	if r.ContentLength != 0 {
		b.wait(readLimit)
	}
	return b
}

// Read reads the next piece. At the end there is no limit any more: the connection of a
// stream is watched by reading it, and stays.
func (b *body) Read(p []byte) (int, error) {
	b.wait(readLimit)
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errTooSlow
	case err != nil:
		b.wait(0)
	}
	return n, err
}

// wait sets how long the next piece may take; 0 is for ever. Some hosts' connections
// have no limits, which is no error.
func (b *body) wait(limit time.Duration) {
	until := time.Time{}
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	_ = b.control.SetReadDeadline(until)
}
