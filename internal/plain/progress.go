package plain

import (
	"bytes"
	"io"
)

// Progress passes output on, without the states of progress that carriage returns
// overwrite. All else stays as it was printed. Close passes on the end of the last
// line. Progress keeps a few KiB in memory, and takes time that grows linearly with the
// output. It is not safe for concurrent use.
type Progress struct {
	to     io.Writer
	line   []byte // the current state of the line
	state  []byte // the one before, if any, with its carriage return
	erased bool   // blanks have overwritten the state before
	passed bool   // the current state is too long to wait for its end
	gone   int64  // bytes left out
}

// maxState is the longest state of a line, in bytes, that can be overwritten.
const maxState = 4 << 10

// NewProgress returns a filter that passes output on to a writer, which must not
// fail.
func NewProgress(to io.Writer) *Progress { return &Progress{to: to} }

// Clone returns a filter that stands where this one does, and passes output on to
// another writer.
func (p *Progress) Clone(to io.Writer) *Progress {
	return &Progress{to: to, line: bytes.Clone(p.line), state: bytes.Clone(p.state), erased: p.erased, passed: p.passed, gone: p.gone}
}

// Overwritten returns how many bytes have been left out.
func (p *Progress) Overwritten() int64 { return p.gone }

// Write takes the next piece of output.
func (p *Progress) Write(data []byte) (int, error) {
	total := len(data)
	for len(data) > 0 {
		if whole := p.wholeLines(data); whole > 0 {
			p.pass(p.line)
			p.pass(data[:whole])
			p.line, p.passed, data = p.line[:0], false, data[whole:]
			continue
		}
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			p.add(data)
			break
		}
		p.add(data[:end])
		p.end(data[end])
		data = data[end+1:]
	}
	return total, nil
}

// wholeLines returns how long the lines are with which data goes on, and of which
// nothing is overwritten.
func (p *Progress) wholeLines(data []byte) int {
	if len(p.state) > 0 {
		return 0
	}
	if at := bytes.IndexByte(data, '\r'); at >= 0 {
		data = data[:at]
	}
	return bytes.LastIndexByte(data, '\n') + 1
}

// add adds to the current state.
func (p *Progress) add(piece []byte) {
	if !p.passed && len(p.line)+len(piece) > maxState {
		p.pass(p.state)
		p.pass(p.line)
		p.line, p.state, p.erased, p.passed = p.line[:0], p.state[:0], false, true
	}
	if p.passed {
		p.pass(piece)
		return
	}
	p.line = append(p.line, piece...)
}

// end ends the current state, or the line.
func (p *Progress) end(with byte) {
	switch {
	case p.passed:
		p.pass([]byte{with})
		p.passed = false
		return
	case with == '\n':
		p.flush()
		p.pass([]byte{with})
		return
	case len(p.state) > 0 && showsNothing(p.line):
		p.drop(p.line)
		p.gone++
		p.erased = p.erased || len(p.line) > 0
	default:
		p.letGo()
		p.state = append(append(p.state[:0], p.line...), with)
	}
	p.line = p.line[:0]
}

// letGo passes the state before the current one on, unless that overwrites it.
func (p *Progress) letGo() {
	if len(p.state) > 0 && !p.erased && !showsNothing(p.state[:len(p.state)-1]) && !replaces(string(p.state[:len(p.state)-1]), string(p.line)) {
		p.pass(p.state)
	} else {
		p.drop(p.state)
	}
	p.state, p.erased = p.state[:0], false
}

// flush passes the last state of the line on.
func (p *Progress) flush() {
	if len(p.state) > 0 && showsNothing(p.line) {
		p.drop(p.line)
		p.pass(p.state)
	} else {
		p.letGo()
		p.pass(p.line)
	}
	p.line, p.state, p.erased = p.line[:0], p.state[:0], false
}

// Close passes the end of the output on.
func (p *Progress) Close() error {
	p.flush()
	return nil
}

func (p *Progress) pass(piece []byte) {
	if len(piece) > 0 {
		_, _ = p.to.Write(piece)
	}
}

func (p *Progress) drop(piece []byte) { p.gone += int64(len(piece)) }

// showsNothing reports whether a state of a line has only blanks and escape
// sequences.
func showsNothing(state []byte) bool {
	for i := 0; i < len(state); {
		switch state[i] {
		case ' ', '\t':
			i++
		case 0x1b:
			n := escapeLength(string(state[i:min(len(state), i+maxEscape)]))
			if n == 0 {
				return false
			}
			i += n
		default:
			return false
		}
	}
	return true
}
