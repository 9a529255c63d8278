package wire

import (
	"io"
	"sync/atomic"
)

// Pulse is a byte stream that remembers whether anything has come from the
// other side. A side that sends nothing, not even the answer to a ping, is
// gone, whatever the stream in between pretends.
type Pulse struct {
	io.ReadWriteCloser
	heard atomic.Bool
}

// Read implements io.Reader.
func (p *Pulse) Read(b []byte) (int, error) {
	n, err := p.ReadWriteCloser.Read(b)
	if n > 0 {
		p.heard.Store(true)
	}
	return n, err
}

// Heard reports whether bytes have come since it was called last.
func (p *Pulse) Heard() bool { return p.heard.Swap(false) }
