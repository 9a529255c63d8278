package guest

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"sync"
)

// maxWords is how many bytes of a guest's stderr are kept.
const maxWords = 8 << 10

// lastWords keeps the end of what a guest or a process writes to stderr, which
// says why it did not start.
type lastWords struct {
	most int // bytes to keep; maxWords if 0

	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - cmp.Or(l.most, maxWords); over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

// replace forgets what was written and keeps p.
func (l *lastWords) replace(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text[:0], p...)
}

// ReadFrom implements io.ReaderFrom with a small buffer, so that an idle guest
// costs little memory.
func (l *lastWords) ReadFrom(r io.Reader) (int64, error) {
	buf := make([]byte, 512)
	for total := int64(0); ; {
		n, err := r.Read(buf)
		total += int64(n)
		_, _ = l.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// String returns the words, without the space around them.
func (l *lastWords) String() string { return strings.TrimSpace(l.kept()) }

// kept returns all that is kept.
func (l *lastWords) kept() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
