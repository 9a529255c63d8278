// Package sse reads server-sent events from a server that is not trusted: it
// never holds more than one event, and no event beyond a limit.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLarge is returned for an event beyond the reader's limit.
var ErrTooLarge = errors.New("the event is too large")

// Reader reads the data of events. Lines end in LF, CR LF or CR, as the standard
// has it. What servers do besides is tolerated: a field without a space after
// its colon, and a last event without the blank line that ends it.
type Reader struct {
	lines *bufio.Reader
	max   int
	data  []byte
}

// NewReader returns a reader of events whose data has at most max bytes.
func NewReader(r io.Reader, max int) *Reader {
	const buffer = 16 << 10
	return &Reader{lines: bufio.NewReaderSize(&lineFeeds{r: r}, buffer), max: max}
}

// Next returns the data of the next event that has some, its lines ended by
// line feeds. It is valid until the next call. The error is io.EOF at the end.
func (r *Reader) Next() ([]byte, error) {
	r.data = r.data[:0]
	if cap(r.data) > 1<<20 {
		r.data = nil // one large event must not be held to the end
	}
	for {
		blank, err := r.line()
		if len(r.data) > 0 && (blank || err == io.EOF) {
			return r.data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// line reads one line, and keeps it if it is data. Of any other line nothing is
// kept, however long it is.
func (r *Reader) line() (blank bool, err error) {
	isData, begun := false, false
	for {
		part, err := r.lines.ReadSlice('\n')
		if !begun {
			begun = true
			blank = err == nil && len(bytes.TrimRight(part, "\n")) == 0
			part, isData = dataOf(part)
		}
		if isData {
			if len(r.data)+len(part) > r.max {
				return false, ErrTooLarge
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

// endLine leaves one line feed at the end of a line of data.
func (r *Reader) endLine() {
	r.data = append(bytes.TrimRight(r.data, "\n"), '\n')
}

// dataOf returns what a line says after "data:".
func dataOf(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil, false
	}
	return bytes.TrimPrefix(rest, []byte(" ")), true
}

// lineFeeds ends all lines in LF.
type lineFeeds struct {
	r  io.Reader
	cr bool // the last byte was a CR, which has ended a line
}

// Read passes on what comes.
func (l *lineFeeds) Read(p []byte) (int, error) {
	for {
		n, err := l.r.Read(p)
		n = l.convert(p[:n])
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// convert works in place, and returns the length of what is left.
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
