package guest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Attached is the stream of a container's attached stdin and stdout. Reading
// removes the framing that the engine puts around stdout. It also keeps the last
// output on stderr, which says why a guest did not start.
type Attached struct {
	r io.Reader
	w io.WriteCloser

	header [8]byte
	have   int    // bytes of header read
	left   uint32 // bytes of the current frame still to come
	words  lastWords
}

// Attach returns the stream of a container without a terminal. r is the engine's
// answer to attaching stdout and stderr. w is the connection for stdin; Close
// closes it.
func Attach(r io.Reader, w io.WriteCloser) *Attached { return &Attached{r: r, w: w} }

// Read returns what the container wrote to stdout.
func (a *Attached) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if a.left == 0 {
			if err := a.next(); err != nil {
				return 0, err
			}
			continue
		}
		if a.header[0] == 1 {
			n, err := a.r.Read(p[:min(len(p), int(min(a.left, 1<<30)))])
			a.left -= uint32(n)
			return n, err
		}
		var buf [512]byte
		n, err := a.r.Read(buf[:min(uint32(len(buf)), a.left)])
		a.left -= uint32(n)
		_, _ = a.words.Write(buf[:n])
		if err != nil {
			return 0, err
		}
	}
}

// next reads the header of a frame.
func (a *Attached) next() error {
	for a.have < len(a.header) {
		n, err := a.r.Read(a.header[a.have:])
		a.have += n
		if a.have == len(a.header) {
			break
		}
		if err != nil {
			return err
		}
	}
	a.have = 0
	if a.header[0] != 1 && a.header[0] != 2 {
		return fmt.Errorf("stream %d of the container is neither stdout nor stderr", a.header[0])
	}
	a.left = binary.BigEndian.Uint32(a.header[4:])
	return nil
}

// Stderr returns the last bytes that the container wrote to stderr.
func (a *Attached) Stderr() string { return a.words.String() }

// Write writes to the container's stdin.
func (a *Attached) Write(p []byte) (int, error) { return a.w.Write(p) }

// Close closes the connection to the container.
func (a *Attached) Close() error { return a.w.Close() }
