package guest

import (
	"errors"
	"io"
	"strings"
	"sync"
)

// maxWords is how many bytes of a guest's stderr are kept.
const maxWords = 8 << 10

// lastWords keeps the end of what a guest writes to stderr, which says why it did
// not start.
type lastWords struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxWords; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
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

// String returns the words.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
