package screen

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/numeral"
)

// Text is a text in rows that each fit into a terminal's columns.
type Text struct {
	Rows       []string
	Lines      int // of the text itself, without its title
	Characters int

	columns int
}

const (
	// mostBlankLines and mostSpaces are how many in a row are shown as they are.
	mostBlankLines = 2
	mostSpaces     = 40
	// leastRow is the least room for text in a row, however narrow the terminal
	// is.
	leastRow = 4
)

// LayOut lays out a text for a terminal with so many columns. A title, if there is
// one, is above the text, in rows without a line number.
func LayOut(title, text string, columns int) Text {
	text = strings.TrimRight(text, "\n")
	lines := strings.Split(text, "\n")
	numbers := make([]string, len(lines))
	for i := range numbers {
		numbers[i] = strconv.Itoa(i + 1)
	}
	t := LayOutLabelled(title, lines, numbers, columns)
	t.Characters = utf8.RuneCountInString(text)
	if text == "" {
		t.Lines = 0
	}
	return t
}

// LayOutLabelled is New for lines that have labels in the margin instead of their numbers.
// A label is of the program, and not empty: rows without one go on with a line.
func LayOutLabelled(title string, lines, labels []string, columns int) Text {
	t := Text{Lines: len(lines), columns: max(columns, 2)}
	digits := 0
	for i, label := range labels {
		digits = max(digits, width(label))
		t.Characters += utf8.RuneCountInString(lines[i])
	}
	margin := strings.Repeat(" ", digits) + " │ "
	room := max(columns-digits-len(" │ ")-1, leastRow)
	t.Rows = titleRows(title, margin, room)
	for at := 0; at < len(lines); at++ {
		if n := blankLines(lines[at:]); n > mostBlankLines {
			for _, row := range wrap(fmt.Sprintf("… %d blank lines …", n), room) {
				t.Rows = append(t.Rows, margin+row)
			}
			at += n - 1
			continue
		}
		first := strings.Repeat(" ", digits-width(labels[at])) + labels[at] + " │ "
		for _, row := range wrap(foldSpaces(Exact(lines[at])), room) {
			t.Rows = append(t.Rows, first+row)
			first = margin
		}
	}
	return t
}

// titleRows lays out a title as one line, even if it has line ends.
func titleRows(title, margin string, room int) []string {
	if title == "" {
		return nil
	}
	rows := wrap(foldSpaces(Exact(strings.ReplaceAll(title, "\n", " "))), room)
	for i := range rows {
		rows[i] = margin + rows[i]
	}
	return rows
}

// Size returns how long the text is: "3 lines, 40 characters".
func (t Text) Size() string {
	return numeral.Count(t.Lines, "line") + ", " + numeral.Count(t.Characters, "character")
}

// OneLine returns a text of one line, and whether it fits into so many columns as it
// is.
func OneLine(text string, columns int) (string, bool) {
	exact := Exact(text)
	return exact, foldSpaces(exact) == exact && !strings.Contains(exact, "\n") && width(exact) <= columns
}

// Row returns the beginning of a line that fits into so many columns, with control
// characters made visible.
func Row(line string, columns int) string { return wrap(Visible(line), max(columns, 2))[0] }

// Excerpt returns at most so many rows: all of them, or the beginning and the end
// with a row between them that counts the others. all reports which.
func (t Text) Excerpt(rows int) (shown []string, all bool) {
	rows = max(rows, 3)
	if len(t.Rows) <= rows {
		return t.Rows, true
	}
	tail := max((rows-1)/3, 1)
	head := rows - 1 - tail
	shown = append(shown, t.Rows[:head]...)
	shown = append(shown, wrap(fmt.Sprintf("… %d rows are not shown …", len(t.Rows)-head-tail), t.columns)[0])
	return append(shown, t.Rows[len(t.Rows)-tail:]...), false
}

// Brief returns a text in at most so many rows, where there is no room for lines:
// its beginning and its end, with the number of characters between them. "⏎" stands
// for line ends.
func Brief(text string, columns, rows int) []string {
	text = foldSpaces(strings.ReplaceAll(Exact(strings.TrimRight(text, "\n")), "\n", " ⏎ "))
	columns, rows = max(columns, 2), max(rows, 1)
	room := columns * rows
	if rows > 1 {
		room -= rows // for wide characters at the ends of rows
	}
	if width(text) > room {
		const between = " … %d characters … "
		left := utf8.RuneCountInString(text)
		room -= width(fmt.Sprintf(between, left))
		head, tail := wrap(text, max(room/2, 1))[0], end(text, max(room/2, 1))
		text = head + fmt.Sprintf(between, left-utf8.RuneCountInString(head)-utf8.RuneCountInString(tail)) + tail
	}
	return wrap(text, columns)
}

// end returns the end of a text that fits into so many columns.
func end(text string, room int) string {
	at := len(text)
	for at > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:at])
		if room -= columns(r); room < 0 {
			break
		}
		at -= size
	}
	return text[at:]
}

// Page returns page i, counted from 0, in pages of so many rows, and the number
// of pages.
func (t Text) Page(i, rows int) (shown []string, pages int) {
	rows = max(rows, 3)
	pages = (len(t.Rows) + rows - 1) / rows
	return t.Rows[min(i*rows, len(t.Rows)):min((i+1)*rows, len(t.Rows))], pages
}

// blankLines counts the lines of white space at the beginning.
func blankLines(lines []string) int {
	for i, line := range lines {
		if strings.TrimFunc(line, unicode.IsSpace) != "" {
			return i
		}
	}
	return len(lines)
}

// foldSpaces replaces each long run of spaces by their number.
func foldSpaces(line string) string {
	var b strings.Builder
	for line != "" {
		words := strings.TrimLeft(line, " ")
		if n := len(line) - len(words); n > mostSpaces {
			fmt.Fprintf(&b, "… %d spaces …", n)
		} else {
			b.WriteString(line[:n])
		}
		end := strings.IndexByte(words, ' ')
		if end < 0 {
			end = len(words)
		}
		b.WriteString(words[:end])
		line = words[end:]
	}
	return b.String()
}

// wrap cuts a line into rows of at most room columns. An empty line is one row.
func wrap(line string, room int) []string {
	var rows []string
	begin, used := 0, 0
	for i, r := range line {
		w := columns(r)
		if used+w > room {
			rows = append(rows, line[begin:i])
			begin, used = i, 0
		}
		used += w
	}
	return append(rows, line[begin:])
}

// width returns how many columns a text takes at most.
func width(text string) (n int) {
	for _, r := range text {
		n += columns(r)
	}
	return n
}

// columns returns how wide a character may be. Terminals do not agree on the
// width of characters outside of ASCII, and a row must not get too wide.
func columns(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	return 2
}
