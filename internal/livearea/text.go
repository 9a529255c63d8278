package livearea

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/x/pygent/internal/screen"
)

// Clean returns a text as a terminal may get it: of its control sequences only
// those are left that set a style (SGR), and all other control characters are made
// visible. It is the last guard: texts of others have to pass [screen.Visible]
// before they get a style, so that they have no style of their own.
func Clean(text string) string {
	if !strings.ContainsRune(text, '\x1b') {
		return screen.Visible(text)
	}
	var b strings.Builder
	for text != "" {
		at := strings.Index(text, "\x1b[")
		n := 0
		if at >= 0 {
			n = styleLength(text[at:])
		}
		switch {
		case at < 0:
			b.WriteString(screen.Visible(text))
			return b.String()
		case n == 0:
			b.WriteString(screen.Visible(text[:at+1]))
			text = text[at+1:]
		default:
			b.WriteString(screen.Visible(text[:at]) + text[at:at+n])
			text = text[at+n:]
		}
	}
	return b.String()
}

// styleLength returns the length of the style that a text begins with, or 0. No
// style is longer than maxStyle.
func styleLength(text string) int {
	const maxStyle = 64
	for i := len("\x1b["); i < min(len(text), maxStyle); i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0
		}
	}
	return 0
}

// Width returns how many columns a text takes, without its styles.
func Width(text string) int { return ansi.StringWidth(text) }

// widest returns how many columns a text takes at most in any terminal. They agree on
// the characters of ASCII and on those that are always wide.
func widest(text string) (columns int) {
	for _, r := range ansi.Strip(text) {
		columns++
		if r >= utf8.RuneSelf {
			columns++
		}
	}
	return columns
}

// Cut returns the beginning of a line that fits into so many columns. Of a line
// that is cut, the last character is "…".
func Cut(line string, columns int) string {
	if len(line) <= columns || Width(line) <= columns {
		return line
	}
	return ansi.Truncate(line, max(columns, 1), "…")
}

// withoutBlanks returns a row without the blanks and styles at its end.
func withoutBlanks(row string) string {
	for {
		row = strings.TrimRight(row, " ")
		at := strings.LastIndex(row, "\x1b[")
		if at < 0 || styleLength(row[at:]) != len(row)-at {
			return row
		}
		row = row[:at]
	}
}

// Wrap breaks a line into rows of at most so many columns, between words where
// it can; a hyphen is part of a word, such as a flag. A style goes on in the next
// row. There is at least one row.
func Wrap(line string, columns int) []string {
	if len(line) <= columns {
		return []string{line}
	}
	const noBreak = "\ue0ff" // in the place of hyphens, at which ansi.Wrap would break
	line = ansi.Wrap(strings.ReplaceAll(line, "-", noBreak), max(columns, 2), "")
	rows := strings.Split(strings.ReplaceAll(line, noBreak, "-"), "\n")
	style := ""
	for i, row := range rows {
		rows[i] = style + row
		style = styleAfter(style, row)
	}
	return rows
}

// styleAfter returns the styles that are in force after a row that begins with
// some.
func styleAfter(style, row string) string {
	for {
		at := strings.Index(row, "\x1b[")
		if at < 0 {
			return style
		}
		n := styleLength(row[at:])
		switch s := row[at : at+n]; s {
		case "\x1b[m", "\x1b[0m":
			style = ""
		default:
			style += s
		}
		row = row[at+max(n, 1):]
	}
}
