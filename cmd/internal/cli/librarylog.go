package cli

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// maxHeldLog is how much of a log is kept for the end of a session, in bytes.
const maxHeldLog = 64 << 10

// libraryLog prints what libraries log: often what servers say. During a session
// it is kept until the end, since it would be in the middle of what the session
// shows.
type libraryLog struct {
	mu      sync.Mutex // guards what follows
	out     io.Writer
	holding bool
	held    bytes.Buffer
	dropped int // entries that did not fit
}

func newLibraryLog() *libraryLog { return &libraryLog{out: screen.Stderr()} }

// Write prints or keeps an entry.
func (l *libraryLog) Write(entry []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.holding:
		return l.out.Write(entry)
	case l.held.Len()+len(entry) > maxHeldLog:
		l.dropped++
	default:
		l.held.Write(entry)
	}
	return len(entry), nil
}

// hold keeps entries until release is called, which prints them.
func (l *libraryLog) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holding = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holding = false
		if l.dropped > 0 {
			fmt.Fprintf(&l.held, "… and %s\n", numeral.Count(l.dropped, "other log entry"))
			l.dropped = 0
		}
		_, _ = l.held.WriteTo(l.out) // nobody could be told
	}
}
