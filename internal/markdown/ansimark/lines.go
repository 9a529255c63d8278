package ansimark

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// span is a piece of text in one style. It has nothing that drives a terminal, and no
// line end but as a span of its own, which is a hard break.
type span struct {
	text  string
	style style
	exact bool // whether its spaces are kept
}

// width returns how many columns spans take.
func width(spans []span) (columns int) {
	for _, s := range spans {
		columns += columnsOf(s.text)
	}
	return columns
}

// columnsOf returns how many columns a text takes.
func columnsOf(s string) int {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= utf8.RuneSelf {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// line writes a line: the prefix of the containers around it, and spans.
func (r *renderer) line(spans ...span) {
	prefix := r.first
	r.first = r.rest
	r.write(prefix, spans)
}

// write writes a line: a prefix, without the spaces at its end if nothing follows it,
// and spans.
func (r *renderer) write(prefix, spans []span) {
	if spell(spans) == "" {
		prefix = trimRight(prefix)
	}
	var on style
	for _, part := range [2][]span{prefix, spans} {
		for _, s := range part {
			if s.text == "" {
				continue
			}
			if s.style != on && r.options.Colours {
				if on != (style{}) {
					r.out.WriteString(reset)
				}
				if s.style != (style{}) {
					r.out.WriteString(sequence(s.style))
				}
				on = s.style
			}
			r.out.WriteString(s.text)
		}
	}
	if on != (style{}) {
		r.out.WriteString(reset)
	}
	r.out.WriteByte('\n')
}

// trimRight returns spans without the spaces at their end.
func trimRight(spans []span) []span {
	for n := len(spans); n > 0; n-- {
		last := spans[n-1]
		if last.text = strings.TrimRight(last.text, " "); last.text != "" {
			return append(spans[:n-1:n-1], last)
		}
	}
	return nil
}

// wrapper breaks spans into lines.
type wrapper struct {
	width  int // of the text in a row
	margin int // columns before the text of the first row, which the terminal leaves out in those that it adds
	lines  [][]span

	line      []span // the line so far
	lineWidth int
	gap       []span // the spaces after it
	word      []span // the word after those
	wordWidth int
}

// wrap breaks spans into lines of at most a number of columns, except for words that
// are wider. Each line has at least one word. In front of a line is a margin.
func wrap(spans []span, width, margin int) [][]span {
	w := &wrapper{width: width, margin: margin}
	for _, s := range spans {
		if s.text == "\n" {
			w.endWord()
			w.endLine()
			continue
		}
		w.add(s)
	}
	w.endWord()
	w.endLine()
	return w.lines
}

// add adds a span, which may be a part of a word or have many.
func (w *wrapper) add(s span) {
	begin := 0
	for i, c := range s.text {
		if c != ' ' && c != '\t' {
			continue
		}
		w.part(s, begin, i)
		w.endWord()
		begin = i + 1
		if len(w.gap) == 0 || s.exact {
			w.gap = append(w.gap, span{" ", s.style, true})
		}
	}
	w.part(s, begin, len(s.text))
}

// part adds a part of a span to the word.
func (w *wrapper) part(s span, begin, end int) {
	if begin < end {
		s.text = s.text[begin:end]
		w.word = append(w.word, s)
		w.wordWidth += columnsOf(s.text)
	}
}

// endWord puts the word into the line, or into the next one.
func (w *wrapper) endWord() {
	if len(w.word) == 0 {
		return
	}
	gap := width(w.gap)
	flowing := flows(w.word) && w.lineWidth+gap+2 <= w.width // so that its first character fits
	if len(w.line) > 0 && w.lineWidth+gap+w.wordWidth > w.width && !flowing {
		w.lines = append(w.lines, w.line)
		w.line, w.lineWidth = nil, 0
	}
	if len(w.line) > 0 {
		w.line = append(w.line, w.gap...)
		w.lineWidth += gap
	}
	w.line = append(w.line, w.word...)
	w.lineWidth += w.wordWidth
	for flowing && w.lineWidth > w.width { // a row may have a column that no wide character fits into
		w.lineWidth -= w.width + w.margin - 1
	}
	w.gap, w.word, w.wordWidth = nil, nil, 0
}

// endLine ends the line, if there is something in it.
func (w *wrapper) endLine() {
	if len(w.line) > 0 {
		w.lines = append(w.lines, w.line)
	}
	w.line, w.lineWidth, w.gap = nil, 0, nil
}

// flows reports whether a word may begin in any column because the terminal may break
// it anywhere: one with Chinese or Japanese characters, between which there are no
// spaces at which a line could end without something being added to the text.
func flows(word []span) bool {
	for _, s := range word {
		for _, r := range s.text {
			if r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
				return true
			}
		}
	}
	return false
}
