package terminal

import (
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/numeral"
)

// Bounds of what is kept of what a command writes, in bytes.
const (
	keptHead = 256 << 10
	keptTail = 256 << 10
)

// written keeps the beginning and the end of what a command writes. It is safe for
// concurrent use.
type written struct {
	mu      sync.Mutex // guards what follows
	head    []byte
	tail    []byte // what follows the head; between keptTail and twice of it, if there was more
	dropped int64  // bytes between them
}

// Write keeps b.
func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	fits := min(len(b), keptHead-len(w.head))
	w.head = append(w.head, b[:fits]...)
	b = b[fits:]
	if over := len(b) - keptTail; over > 0 {
		w.dropped += int64(over)
		b = b[over:]
	}
	w.tail = append(w.tail, b...)
	if len(w.tail) >= 2*keptTail {
		w.dropped += int64(len(w.tail) - keptTail)
		w.tail = slices.Delete(w.tail, 0, len(w.tail)-keptTail)
	}
	return n, nil
}

// end returns the end of what was written so far, of at most maxTail bytes.
func (w *written) end() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.tail[max(len(w.tail)-maxTail, 0):]
	if len(last) < maxTail && w.dropped == 0 {
		last = append(slices.Clone(w.head[max(len(w.head)-maxTail+len(last), 0):]), last...)
	}
	return strings.ToValidUTF8(string(last), "\uFFFD")
}

// text returns what was written, with a line for what is left out.
func (w *written) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(w.head)
	if w.dropped > 0 {
		text += "\n… " + numeral.Count(w.dropped, "more byte") + " …\n"
	}
	return strings.ToValidUTF8(text+string(w.tail), "\uFFFD")
}
