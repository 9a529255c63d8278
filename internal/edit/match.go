package edit

import (
	"fmt"
	"slices"
	"strings"
)

// matches are the places where an edit's old text was found.
type matches struct {
	at    []span
	new   string
	ends  lineEnds
	loose bool   // found with other line ends, or other blanks at line ends
	exact bool   // found with the CRLF that it has, so that the new text is used as it is
	open  bool   // old ends with a newline, which the end of the text stands for
	note  string // what to tell of how it was found
}

// find looks for the old text of an edit. That it is not there is an error.
func find(text string, e Edit) (matches, error) {
	found, err := findText(text, e)
	if err != nil || len(found.at) > 0 {
		return found, err
	}
	if found, err = findCanonical(text, e); err != nil || len(found.at) > 0 {
		return found, err
	}
	if old, ok := withoutNumbers(e.Old); ok {
		new, err := newWithoutNumbers(e.New)
		if err != nil {
			return found, err
		}
		e = Edit{Old: old, New: new, All: e.All}
		found, err = findText(text, e)
		if found.at = wholeLines(text, found.at); err != nil || len(found.at) > 0 {
			found.note = "the numbers of lines in old_text, which are not in the file, were left out"
			return found, err
		}
	}
	return found, notFound(text, e)
}

// wholeLines returns the places that begin and end with lines. What a model has
// copied with the numbers of lines does, and a table may have numbers of its own.
func wholeLines(text string, at []span) []span {
	return slices.DeleteFunc(at, func(s span) bool {
		begins := s.from == 0 || isEnd(text[s.from-1])
		ends := s.to == len(text) || isEnd(text[s.to]) || isEnd(text[s.to-1])
		return !begins || !ends && strings.Trim(lineRest(text, s.to), blanks) != ""
	})
}

func isEnd(c byte) bool { return c == '\n' || c == '\r' }

// lineRest returns the line of a text from a byte on.
func lineRest(text string, at int) string {
	rest, _, _ := strings.Cut(text[at:], "\n")
	return rest
}

func findText(text string, e Edit) (matches, error) {
	found := matches{new: e.New, ends: lineEnds{text: text, alone: crAlone(text)}, exact: strings.Contains(e.Old, "\r\n")}
	var err error
	if found.at, err = occurrences(text, e.Old, e.All); err != nil || len(found.at) > 0 {
		return found, err
	}
	found.loose, found.exact = true, false
	found.at, found.note, err = findLoose(text, e)
	found.open = strings.HasSuffix(e.Old, "\n") && !strings.HasSuffix(text, found.ends.lineEnd())
	found.keepSame(e)
	return found, err
}

// occurrences returns where old occurs: without overlaps if all are wanted, and
// else with them.
func occurrences(text, old string, all bool) ([]span, error) {
	first := strings.Index(text, old)
	if first < 0 {
		return nil, nil
	}
	at := []span{{first, first + len(old)}}
	if !all && strings.LastIndex(text, old) == first {
		return at, nil
	}
	for {
		from := at[len(at)-1].to
		next := strings.Index(text[from:], old)
		if next < 0 {
			break
		}
		if len(at) >= maxMatches {
			return nil, fmt.Errorf("old_text occurs more than %d times", maxMatches)
		}
		at = append(at, span{from + next, from + next + len(old)})
	}
	if !all && len(at) == 1 { // it overlaps itself
		last := strings.LastIndex(text, old)
		at = append(at, span{last, last + len(old)})
	}
	return at, nil
}

// keepSame leaves the lines at the beginning and the end of a piece that the edit
// does not change as they are in the text, with the blanks and the line ends that
// the old text was given without.
func (m *matches) keepSame(e Edit) {
	old, new := strings.ReplaceAll(e.Old, "\r\n", "\n"), strings.ReplaceAll(e.New, "\r\n", "\n")
	if old == new {
		return // only line ends change
	}
	head := sameHead(old, new)
	tail := sameTail(old[head:], new[head:])
	before := strings.Count(old[:head], "\n")
	upTo := strings.Count(old[:len(old)-tail], "\n")
	kept := make([]span, len(m.at))
	for i, at := range m.at {
		var ok1, ok2 bool
		kept[i].from, ok1 = m.ends.skip(at.from, at.to, before)
		kept[i].to, ok2 = at.to, true
		if tail > 0 {
			kept[i].to, ok2 = m.ends.skip(at.from, at.to, upTo)
		}
		if !ok1 || !ok2 {
			return // a line has no end in the text
		}
	}
	m.at, m.new = kept, new[head:len(new)-tail]
}

// sameHead returns how long the lines are with which two texts begin.
func sameHead(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return strings.LastIndexByte(a[:n], '\n') + 1
}

// sameTail returns how long the lines are with which two texts end. A line that
// is the whole of one of them counts only if it is a line of the other as well.
func sameTail(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	begins := func(s string) bool { return n == len(s) || s[len(s)-1-n] == '\n' }
	for n > 0 && !(begins(a) && begins(b)) {
		next := strings.IndexByte(a[len(a)-n:], '\n')
		if next < 0 {
			return 0
		}
		n -= next + 1
	}
	return n
}

// place returns where a piece to be replaced begins, and the new text with the
// line ends of its surroundings.
func (m *matches) place(at span) (from int, new string) {
	text := m.ends.text
	new = m.new
	if m.open && at.to == len(text) {
		new = strings.TrimSuffix(new, "\n")
	}
	if m.exact {
		return at.from, new
	}
	switch m.ends.of(at.from) {
	case "\r\n":
		if at.from > 0 && at.from < len(text) && text[at.from] == '\n' && text[at.from-1] == '\r' {
			at.from-- // the CR before it belongs to the line end
		}
		new = toCRLF(new)
	case "\r":
		new = strings.ReplaceAll(strings.ReplaceAll(new, "\r\n", "\n"), "\n", "\r")
	default:
		if m.loose {
			new = strings.ReplaceAll(new, "\r\n", "\n")
		}
	}
	return at.from, new
}

// lineEnds tells how lines of a text end. It remembers the line that it was asked
// about last, so that many questions in order take no longer than one.
type lineEnds struct {
	text     string
	alone    bool // lines end in CR alone
	from, to int  // the line that is known
	crlf     bool
	known    bool
}

// lineEnd returns what the last byte of a line is.
func (l *lineEnds) lineEnd() string {
	if l.alone {
		return "\r"
	}
	return "\n"
}

// skip goes past line ends, of which there must be so many before to.
func (l *lineEnds) skip(from, to, ends int) (at int, ok bool) {
	for ; ends > 0; ends-- {
		next := strings.Index(l.text[from:to], l.lineEnd())
		if next < 0 {
			return 0, false
		}
		from += next + 1
	}
	return from, true
}

// of returns how the line that contains byte at ends. For a last line without an
// end, it looks at the line before.
func (l *lineEnds) of(at int) string {
	if l.alone {
		return "\r"
	}
	if !l.known || at < l.from || at >= l.to {
		end := strings.IndexByte(l.text[at:], '\n')
		l.known, l.from, l.to = true, at, at+end+1
		if end < 0 {
			end, l.to = strings.LastIndexByte(l.text[:at], '\n'), len(l.text)+1
		} else {
			end += at
		}
		l.crlf = end > 0 && l.text[end-1] == '\r'
	}
	if l.crlf {
		return "\r\n"
	}
	return "\n"
}

// crAlone reports whether the lines of a text end in CR alone.
func crAlone(text string) bool {
	return strings.IndexByte(text, '\n') < 0 && strings.IndexByte(text, '\r') >= 0
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// LineEndsOf returns what is added to a text with the line ends of that.
func LineEndsOf(text, added string) string {
	ends := lineEnds{text: text, alone: crAlone(text)}
	switch ends.of(len(text)) {
	case "\r\n":
		return toCRLF(added)
	case "\r":
		return strings.ReplaceAll(toLF(added), "\n", "\r")
	}
	return added
}

// LineEnds names the line ends of a text: "LF", "CRLF", "CR" or "CRLF and LF"; ""
// if it has none.
func LineEnds(text string) string {
	lf, crlf := strings.Count(text, "\n"), strings.Count(text, "\r\n")
	switch {
	case lf == 0 && crAlone(text):
		return "CR"
	case lf == 0:
		return ""
	case crlf == lf:
		return "CRLF"
	case crlf > 0:
		return "CRLF and LF"
	}
	return "LF"
}
