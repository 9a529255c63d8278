package edit

import (
	"errors"
	"sort"
	"strconv"
	"strings"
)

// plain is a text without what nobody sees: every line ends in LF, also the last
// one, and has no blanks before its end.
type plain struct {
	text  string
	pos   []place // where pieces of text come from, in order
	blank bool    // blanks were removed at the end of a last line without an end
	open  bool    // the last line has no end
}

// place is where a piece of a plain text comes from.
type place struct{ plain, from int }

// blanks are what is not seen at the end of a line.
const blanks = " \t\r"

// newPlain makes the plain form of a text whose lines end in end.
func newPlain(text string, end byte) plain {
	var b strings.Builder
	b.Grow(len(text) + 1)
	p := plain{}
	for from := 0; from < len(text); {
		to, next := len(text), len(text)
		if i := strings.IndexByte(text[from:], end); i >= 0 {
			to, next = from+i, from+i+1
		}
		line := strings.TrimRight(text[from:to], blanks)
		p.pos = append(p.pos, place{b.Len(), from})
		b.WriteString(line)
		if to > from && next > to && text[to-1] == '\r' {
			to-- // CRLF is one end
		}
		if p.open = next == len(text) && (len(text) == 0 || text[len(text)-1] != end); p.open {
			p.blank = len(line) < to-from
		}
		p.pos = append(p.pos, place{b.Len(), to})
		b.WriteByte('\n')
		from = next
	}
	p.pos = append(p.pos, place{b.Len(), len(text)})
	p.text = b.String()
	return p
}

// from returns where byte at of the plain text comes from.
func (p plain) from(at int) int {
	i := sort.Search(len(p.pos), func(i int) bool { return p.pos[i].plain > at }) - 1
	return p.pos[i].from + at - p.pos[i].plain
}

// to returns where the piece of the text ends that ends before byte at of the
// plain text.
func (p plain) to(at int) int {
	if p.text[at-1] != '\n' {
		return p.from(at-1) + 1
	}
	i := sort.Search(len(p.pos), func(i int) bool { return p.pos[i].plain >= at })
	return p.pos[i].from // where the next line begins
}

// findLoose looks for the old text of an edit as it is seen: blanks at line ends
// and the kind of line ends do not count.
func findLoose(text string, e Edit) (at []span, note string, err error) {
	end := byte('\n')
	if crAlone(text) {
		end = '\r'
	}
	old := newPlain(e.Old, '\n')
	needle := old.text
	if old.open && !old.blank {
		needle = strings.TrimSuffix(needle, "\n") // a line may go on after it
	}
	if strings.TrimSpace(needle) == "" {
		return nil, "", nil
	}
	first, _, _ := strings.Cut(e.Old, "\n")
	alsoBlanks := first != "" && strings.Trim(first, blanks) == "" // those before the first line end are in old
	in := newPlain(text, end)
	found, err := occurrences(in.text, needle, e.All)
	for i, f := range found {
		to := f.to
		if old.open && old.blank {
			to-- // old has no line end
		}
		found[i] = span{in.from(f.from), in.to(to)}
		if alsoBlanks {
			found[i].from = len(strings.TrimRight(text[:found[i].from], " \t"))
		}
	}
	if len(found) > 0 {
		was := text[found[0].from:found[0].to]
		if strings.TrimSuffix(toLF(was), "\n") != strings.TrimSuffix(toLF(e.Old), "\n") {
			note = "old_text was found with other blanks at the ends of lines"
		}
	}
	return found, note, err
}

// toLF gives a text LF line ends.
func toLF(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.ReplaceAll(s, "\r", "\n")
}

// withoutNumbers removes the numbers before lines that a model has copied from
// what it was shown. ok is false if not all lines have one, in order.
func withoutNumbers(text string) (bare string, ok bool) {
	bare, with, all := cutNumbers(text)
	return bare, with == all && strings.TrimSpace(bare) != ""
}

// newWithoutNumbers does the same for the text that takes the place, where all
// lines have numbers or none has.
func newWithoutNumbers(text string) (string, error) {
	bare, with, all := cutNumbers(text)
	switch with {
	case 0:
		return text, nil
	case all:
		return bare, nil
	}
	return "", errors.New("old_text and some lines of new_text begin with the numbers of lines, which are not in the file; leave them out")
}

// cutNumbers removes the numbers before lines. It returns how many lines had one
// that follows the one before, and how many lines there are.
func cutNumbers(text string) (bare string, with, all int) {
	var b strings.Builder
	last := 0
	for line := range strings.Lines(text) {
		all++
		number, rest := cutNumber(line, last+1)
		if number > 0 && (last == 0 || number == last+1) {
			with++
			last = number
		} else {
			rest = line
		}
		b.WriteString(rest)
	}
	return b.String(), with, all
}

// maxDigits is how long the number of a line can be.
const maxDigits = 9

// cutNumber cuts the number and the tab before a line off. An empty line may have
// lost its tab, if its number is next. Without a number, it returns 0.
func cutNumber(line string, next int) (number int, rest string) {
	trimmed := strings.TrimLeft(line, " ")
	digits := 0
	for digits < len(trimmed) && trimmed[digits] >= '0' && trimmed[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > maxDigits {
		return 0, line
	}
	number, _ = strconv.Atoi(trimmed[:digits])
	rest, tabbed := strings.CutPrefix(trimmed[digits:], "\t")
	if !tabbed && (number != next || number == 1 || strings.TrimRight(rest, blanks+"\n") != "") {
		return 0, line
	}
	return number, rest
}
