package openai

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/openai/chatstream"
)

// Limits of what is read of a response while it yields no data.
const (
	maxDeflated = 1 << 20  // bytes of gzip that nothing comes out of
	maxSilent   = 32 << 20 // bytes of a stream without data: more than one event may have
)

// decodeBody is a middleware that decodes compressed responses. The transport's
// own decoder would read without end a body that never yields a byte, such as
// empty blocks.
func decodeBody(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err == nil && res.Body != nil {
		res.Body = &decoded{Closer: res.Body, res: res, raw: res.Body}
	}
	return res, err
}

// decoded decodes a body that begins like gzip, whatever its header says. Like
// the transport, it then removes the header.
type decoded struct {
	io.Closer
	res  *http.Response
	raw  io.Reader
	read io.Reader // the decoder or raw, once there was a first byte
	in   *fuse     // what the decoder reads from, if there is one
}

// Read passes on what comes out of the body.
func (d *decoded) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case d.read == nil:
		return d.begin(p)
	case d.in != nil:
		d.in.left = maxDeflated
	}
	return d.read.Read(p)
}

// begin reads the first bytes, which are passed on if they do not begin like gzip: so
// other bodies need no buffer here.
func (d *decoded) begin(p []byte) (int, error) {
	const magic = "\x1f\x8b"
	n, err := d.raw.Read(p)
	if n == 0 {
		return 0, err
	}
	if p[0] != magic[0] {
		d.read = d.raw
		return n, err
	}
	// The body gives an error of this read again.
	whole := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(p[:n])), d.raw))
	if head, _ := whole.Peek(len(magic)); string(head) != magic {
		d.read = whole
		return d.read.Read(p)
	}
	in := &fuse{r: whole, left: maxDeflated}
	decoder, err := gzip.NewReader(in)
	if err != nil {
		return 0, err
	}
	d.res.Header.Del("Content-Encoding")
	d.read, d.in = decoder, in
	return d.Read(p)
}

// badGzip reports whether a body begins like gzip but is not valid gzip.
func badGzip(err error) bool {
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, new(flate.CorruptInputError))
}

// fuse ends a compressed body that continues without yielding a byte.
type fuse struct {
	r    io.Reader
	left int
}

// Read passes on what comes until it is too much.
func (f *fuse) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, fmt.Errorf("%w: nothing comes out of %d MiB of gzip", chatstream.ErrTooLarge, maxDeflated>>20)
	}
	n, err := f.r.Read(p)
	f.left -= n
	return n, err
}

// boundedStream bounds the length of a stream: in all, and between two pieces
// of data.
type boundedStream struct {
	r           io.Reader
	all, silent int // bytes that are left
}

func newBoundedStream(r io.Reader) *boundedStream {
	return &boundedStream{r: r, all: maxStreamBody, silent: maxSilent}
}

// moved records that data came.
func (s *boundedStream) moved() { s.silent = maxSilent }

// Read passes on what comes while the bounds allow for it.
func (s *boundedStream) Read(p []byte) (int, error) {
	switch {
	case s.all <= 0:
		return 0, fmt.Errorf("%w: a stream of more than %d MiB", chatstream.ErrTooLarge, maxStreamBody>>20)
	case s.silent <= 0:
		return 0, fmt.Errorf("%w: %d MiB of the stream say nothing", chatstream.ErrTooLarge, maxSilent>>20)
	}
	n, err := s.r.Read(p[:min(len(p), s.all, s.silent)])
	s.all -= n
	s.silent -= n
	return n, err
}

// encodingOf returns the encoding of a response that was not decoded, and "" for
// a response that has none.
func encodingOf(h http.Header) string {
	if encoding := h.Get("Content-Encoding"); encoding != "identity" {
		return cut.Head(encoding, maxErrorName)
	}
	return ""
}
