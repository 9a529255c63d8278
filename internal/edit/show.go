package edit

import (
	"strings"

	"github.com/x/pygent/internal/filetext"
)

// Bounds of what is shown of a text.
const (
	around    = 2       // lines around a change
	headLines = 8       // lines of a long change that are shown first
	tailLines = 3       // and last
	lineBytes = 200     // bytes of a line
	showBytes = 3 << 10 // bytes of all
	gap       = "…\n"   // stands for lines that are left out
)

// show returns the lines of spans with their numbers and some lines around them.
// The spans are in order of where they begin.
func show(text string, spans []span) string {
	s := shower{text: text, line: 1}
	for i, piece := range spans {
		if i > 0 && piece.to <= spans[i-1].to && piece.from >= spans[i-1].from {
			continue
		}
		if !s.piece(piece) {
			break
		}
	}
	return s.out.String()
}

// shower writes lines of a text, each at most once and in order.
type shower struct {
	text string
	at   int // the beginning of the line that comes next
	line int // its number
	last int // the number of the last line that was shown
	out  strings.Builder
}

// piece shows the lines of a piece and those around it. It returns false if there
// is no more room.
func (s *shower) piece(piece span) bool {
	s.goTo(lineStart(s.text, piece.from, around))
	var lines []int // where the lines of the piece begin
	for at := lineStart(s.text, piece.from, 0); ; {
		lines = append(lines, at)
		next := strings.IndexByte(s.text[at:], '\n')
		if at += next + 1; next < 0 || at >= piece.to || at >= len(s.text) {
			break
		}
		if len(lines) > headLines+tailLines { // only the last ones matter from here on
			copy(lines[headLines:], lines[headLines+1:])
			lines = lines[:len(lines)-1]
		}
	}
	skipTo := -1
	if strings.Count(s.text[lines[0]:max(piece.to, lines[0])], "\n") > headLines+tailLines {
		skipTo = lines[len(lines)-tailLines]
	}
	shown := 0
	for after := 0; s.at < len(s.text) && after <= around; {
		if shown == headLines && skipTo > s.at {
			s.goTo(skipTo)
		}
		begin := s.at
		if !s.next() {
			return false
		}
		if begin >= lines[0] {
			shown++
		}
		if s.at >= piece.to {
			after++
		}
	}
	return true
}

// goTo goes on to a line that begins later.
func (s *shower) goTo(at int) {
	if at > s.at {
		s.line += strings.Count(s.text[s.at:at], "\n")
		s.at = at
	}
}

// next shows the next line.
func (s *shower) next() bool {
	end := len(s.text)
	next := end
	if i := strings.IndexByte(s.text[s.at:], '\n'); i >= 0 {
		end, next = s.at+i, s.at+i+1
	}
	line := filetext.Line(s.line, strings.TrimSuffix(s.text[s.at:end], "\r"), lineBytes)
	if s.line > s.last+1 && s.out.Len() > 0 {
		line = gap + line
	}
	if s.out.Len()+len(line) > showBytes {
		s.out.WriteString(gap)
		return false
	}
	s.out.WriteString(line)
	s.last = s.line
	s.at, s.line = next, s.line+1
	return true
}

// lineStart returns where the line begins that is so many lines before the one
// with byte at.
func lineStart(text string, at, before int) int {
	begin := strings.LastIndexByte(text[:at], '\n')
	for ; before > 0 && begin >= 0; before-- {
		begin = strings.LastIndexByte(text[:begin], '\n')
	}
	return begin + 1
}
