package wire

import (
	"io"
	"sync/atomic"
)

// Pulse is a byte stream that remembers whether anything has arrived from the
// other side. A side that sends nothing, not even the answer to a ping, counts
// as gone, even if the stream in between stays open.
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

// Heard reports whether bytes have arrived since the last call.
func (p *Pulse) Heard() bool { return p.heard.Swap(false) }
