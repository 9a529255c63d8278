package sandbox

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guest/wire"
)

// Chunk is a piece of a running command's output.
type Chunk struct {
	Offset  int64  // the position of Text in the whole output, in bytes
	Text    string // at most maxChunk bytes of UTF-8
	Skipped int64  // bytes left out just before Text
}

// Limits of the output of a running command.
const (
	maxChunk = wire.MaxLive
	// maxWaiting is how many bytes may wait to be passed on. When more come,
	// only the newest chunk is kept.
	maxWaiting = 4 * maxChunk
	// outputGrace is how long a call of the user's function may go on after the
	// end of its command.
	outputGrace = time.Second
)

// liveOutput passes the output of a running command on to a function, in a
// goroutine of its own. The command never waits for the function.
type liveOutput struct {
	call func(Chunk)
	news chan struct{} // holds a token when output waits
	over chan struct{} // closed when the command has ended
	done chan struct{} // closed when no call follows

	mu      sync.Mutex // guards the fields below
	waiting []byte
	at      int64 // the position of waiting in the whole output
	passed  int64 // where the last chunk ended
	left    bool  // nobody waits for calls any more, so none begins
}

// passOn starts passing output on to call. The returned value's write takes the
// output, and its end must be called at the end of the command.
func passOn(call func(Chunk)) *liveOutput {
	l := &liveOutput{
		call: call,
		news: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// write takes a piece of output, which must not begin before the end of the
// last one.
func (l *liveOutput) write(offset int64, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset != l.at+int64(len(l.waiting)) {
		l.at, l.waiting = offset, l.waiting[:0]
	}
	if len(data) >= maxChunk {
		l.at, l.waiting = l.at+int64(len(l.waiting)+len(data)-maxChunk), l.waiting[:0]
		data = data[len(data)-maxChunk:]
	}
	l.waiting = append(l.waiting, data...)
	if len(l.waiting) > maxWaiting {
		l.drop(len(l.waiting) - maxChunk)
	}
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// drop removes n bytes from the front of what waits. The caller holds mu.
func (l *liveOutput) drop(n int) {
	l.at += int64(n)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
}

// end passes the newest output on and ends the calls. A call in progress is
// waited for, but not for long.
func (l *liveOutput) end() {
	close(l.over)
	limit := time.NewTimer(outputGrace)
	defer limit.Stop()
	select {
	case <-l.done:
	case <-limit.C:
		l.mu.Lock()
		l.left = true
		l.mu.Unlock()
	}
}

// run makes the calls, at most one for each [wire.LiveEvery] and one at the end.
func (l *liveOutput) run() {
	defer close(l.done)
	for ended := false; !ended; {
		select {
		case <-l.over:
			ended = true
		case <-l.news:
			ended = l.pause()
		}
		if chunk, ok := l.next(ended); ok {
			l.call(chunk)
		}
	}
}

// pause lets output gather, and reports whether the command ended meanwhile.
func (l *liveOutput) pause() (ended bool) {
	timer := time.NewTimer(wire.LiveEvery)
	defer timer.Stop()
	select {
	case <-l.over:
		return true
	case <-timer.C:
		return false
	}
}

// next takes the next chunk. The last one is the newest.
func (l *liveOutput) next(last bool) (Chunk, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return Chunk{}, false
	}
	if last && len(l.waiting) > maxChunk {
		l.drop(len(l.waiting) - maxChunk)
	}
	if l.at > l.passed { // the first bytes may be the rest of a character
		l.drop(len(l.waiting) - len(cut.TrimStart(l.waiting)))
	}
	piece := l.waiting[:min(len(l.waiting), maxChunk)]
	if !last {
		piece = cut.TrimEnd(piece)
	}
	text, n := validText(piece)
	if n == 0 {
		return Chunk{}, false
	}
	chunk := Chunk{Offset: l.at, Text: text, Skipped: l.at - l.passed}
	l.drop(n)
	l.passed = l.at
	if len(l.waiting) > 0 {
		select {
		case l.news <- struct{}{}:
		default:
		}
	}
	return chunk, true
}

// validText returns the beginning of a piece as valid text of at most maxChunk
// bytes, and the length of that beginning. A run of bytes that are no characters
// becomes a single U+FFFD.
func validText(piece []byte) (text string, n int) {
	if utf8.Valid(piece) {
		return string(piece), len(piece)
	}
	out := make([]byte, 0, maxChunk)
	for inRun := false; n < len(piece); {
		r, size := utf8.DecodeRune(piece[n:])
		invalid := r == utf8.RuneError && size == 1
		if !invalid || !inRun {
			if len(out)+utf8.RuneLen(r) > maxChunk {
				break
			}
			out = utf8.AppendRune(out, r)
		}
		inRun = invalid
		n += size
	}
	return string(out), n
}
