package filetext

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// scan goes through the lines of a file. Of a line it keeps no more than is
// shown.
type scan struct {
	src    Source
	end    byte // of lines
	mark        // where it is
	kept   []byte
	ended  bool // the end of the file was read
	open   bool // the last line has no end
	ends   int  // lines that end
	crlf   int  // lines that end in CRLF
	chunks []mark
}

// mark is a place in a file.
type mark struct {
	at    int64 // the byte
	line  int   // the number of the line in which it is
	begin int64 // where that line begins
	cr    bool  // the byte before is CR
}

func newScan(f *file) *scan { return &scan{src: f.src, end: f.end, mark: mark{line: 1}} }

// again returns a scan that begins at a line or before, without reading
// everything before it once more.
func (s *scan) again(line int) *scan {
	other := &scan{src: s.src, end: s.end, mark: mark{line: 1}}
	for _, m := range s.chunks {
		if m.line < line || m.line == line && m.begin == m.at {
			other.mark = m
		}
	}
	return other
}

// total returns how many lines the file has, once it has ended.
func (s *scan) total() int {
	if s.open {
		return s.line
	}
	return s.line - 1
}

// run reads on until the end, until c has all that it wants, or until a limit of
// bytes or time; then it returns errTooFar. Without c, it only counts.
func (s *scan) run(ctx context.Context, within time.Duration, upTo int64, c *collected) error {
	limited, cancel := context.WithTimeoutCause(ctx, within, errTooFar)
	defer cancel()
	size := int64(head)
	for !s.ended && (c == nil || !c.done) {
		if s.at >= upTo {
			return errTooFar
		}
		s.chunks = append(s.chunks, s.mark)
		data, whole, err := s.src(limited, s.at, size)
		if err != nil && errors.Is(context.Cause(limited), errTooFar) {
			return errTooFar
		}
		if err != nil {
			return err
		}
		last := len(data) == 0 || s.at+int64(len(data)) >= whole
		if s.take(data, c); last && (c == nil || !c.done) {
			s.finish(c)
		}
		size = chunk
	}
	return nil
}

// take reads data. It stops after the last line that c wants.
func (s *scan) take(data []byte, c *collected) {
	for len(data) > 0 {
		switch {
		case c == nil:
			s.advance(data)
			return
		case c.done:
			return
		case s.line < c.from:
			n := endOf(data, s.end, c.from-s.line)
			s.advance(data[:n])
			data = data[n:]
		default:
			data = data[s.collect(data, c):]
		}
	}
}

// collect reads the rest of a line for c, or all of data, and returns how many
// bytes.
func (s *scan) collect(data []byte, c *collected) int {
	end := bytes.IndexByte(data, s.end)
	content := data
	if end >= 0 {
		content = data[:end]
	}
	if room := c.most + 4 - len(s.kept); room > 0 { // and the rest of a character
		s.kept = append(s.kept, content[:min(room, len(content))]...)
	}
	if end < 0 {
		s.advance(data)
		return len(data)
	}
	line, begin := s.line, s.begin
	length := s.at + int64(end) - begin
	if s.end == '\n' && (end > 0 && data[end-1] == '\r' || end == 0 && s.cr && length > 0) {
		length--
	}
	s.advance(data[:end+1])
	c.add(line, s.kept[:min(int64(len(s.kept)), length)], length, begin)
	s.kept = s.kept[:0]
	return end + 1
}

// finish ends the last line.
func (s *scan) finish(c *collected) {
	s.ended, s.open = true, s.at > s.begin
	if s.open && c != nil && s.line >= c.from {
		c.add(s.line, s.kept, s.at-s.begin, s.begin)
	}
}

// advance goes past data.
func (s *scan) advance(data []byte) {
	if len(data) == 0 {
		return
	}
	ends := bytes.Count(data, []byte{s.end})
	s.ends += ends
	s.line += ends
	if s.end == '\n' {
		s.crlf += bytes.Count(data, []byte("\r\n"))
		if s.cr && data[0] == '\n' {
			s.crlf++
		}
	}
	if last := bytes.LastIndexByte(data, s.end); last >= 0 {
		s.begin = s.at + int64(last) + 1
	}
	s.cr = data[len(data)-1] == '\r'
	s.at += int64(len(data))
}

// endOf returns where the first count lines of data end.
func endOf(data []byte, end byte, count int) int {
	at := 0
	for ; count > 0; count-- {
		next := bytes.IndexByte(data[at:], end)
		if next < 0 {
			return len(data)
		}
		at += next + 1
	}
	return at
}
