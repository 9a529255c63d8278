package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrEventTooLarge is returned for an event above the reader's limit.
var ErrEventTooLarge = errors.New("the event is too large")

// EventReader reads the data of events. Lines end in LF, CR LF or CR, as the
// standard says. It also tolerates what some servers do: a field without a
// space after its colon, and a last event without the blank line that ends it.
type EventReader struct {
	lines *bufio.Reader
	max   int
	data  []byte
	name  string // of the event
}

// maxName bounds the name of an event. One that is longer is none that anybody knows.
const maxName = 64

// Name returns the name of the event that Next returned; empty if it has none. That of
// data after "error:", as llama.cpp sends it, is "error".
func (r *EventReader) Name() string { return r.name }

// NewEventReader returns a reader of events whose data has at most max bytes.
func NewEventReader(r io.Reader, max int) *EventReader {
	const buffer = 4 << 10 // what a connection gives at once
	return &EventReader{lines: bufio.NewReaderSize(&lineFeeds{r: r}, buffer), max: max}
}

// Next returns the data of the next event that has any. Each of its lines ends
// in LF. The data is valid until the next call. The error is io.EOF at the end.
func (r *EventReader) Next() ([]byte, error) {
	r.data, r.name = r.data[:0], ""
	if cap(r.data) > 1<<20 {
		r.data = nil // free the memory of one large event before the stream ends
	}
	for {
		blank, err := r.line()
		if len(r.data) > 0 && (blank || err == io.EOF) {
			return r.data, nil
		}
		if blank {
			r.name = ""
		}
		if err != nil {
			return nil, err
		}
	}
}

// line reads one line, and keeps it if it is data. It discards any other line
// piece by piece, however long that is.
func (r *EventReader) line() (blank bool, err error) {
	isData, begun := false, false
	for {
		part, err := r.lines.ReadSlice('\n')
		if !begun {
			begun = true
			blank = err == nil && len(bytes.TrimRight(part, "\n")) == 0
			part, isData = r.field(part)
		}
		if isData {
			if len(r.data)+len(part) > r.max {
				return false, ErrEventTooLarge
			}
			r.data = append(r.data, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if isData && err == nil {
			r.endLine()
		}
		return blank, err
	}
}

// endLine ends a line of data with exactly one line feed.
func (r *EventReader) endLine() {
	r.data = append(bytes.TrimRight(r.data, "\n"), '\n')
}

// field returns the data that begins on a line, and takes the name of an event.
func (r *EventReader) field(line []byte) (data []byte, isData bool) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch value = bytes.TrimPrefix(value, []byte(" ")); string(name) {
	case "error":
		r.name = "error"
		return value, len(bytes.TrimSpace(value)) > 0
	case "event":
		if value = bytes.TrimSpace(value); len(value) <= maxName {
			r.name = string(value)
		}
	case "data":
		return value, bytes.HasPrefix(line, []byte("data:"))
	}
	return nil, false
}

// lineFeeds is a reader that changes all line ends to LF.
type lineFeeds struct {
	r  io.Reader
	cr bool // the last byte was a CR, so an LF after it belongs to the same line end
}

// Read reads on if all it got was the LF of a CR LF, which it drops, since a
// reader should not return 0 bytes without an error.
func (l *lineFeeds) Read(p []byte) (int, error) {
	for {
		n, err := l.r.Read(p)
		n = l.convert(p[:n])
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// convert changes the line ends of p in place, and returns the new length.
func (l *lineFeeds) convert(p []byte) int {
	if !l.cr && bytes.IndexByte(p, '\r') < 0 {
		return len(p)
	}
	kept := 0
	for _, b := range p {
		if skip := l.cr && b == '\n'; !skip {
			p[kept] = b
			if b == '\r' {
				p[kept] = '\n'
			}
			kept++
		}
		l.cr = b == '\r'
	}
	return kept
}
