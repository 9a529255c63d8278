package slash

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Help explains the command of a name or, with an empty one, lists all of them. Where
// out is a terminal, which says so by a method Columns, lines are broken between words.
func Help(commands []Entry, name string, out io.Writer) error {
	columns := columnsOf(out)
	if name == "" {
		_, err := io.WriteString(out, list(commands, columns))
		return err
	}
	name = strings.TrimPrefix(name, "/")
	at := slices.IndexFunc(commands, func(e Entry) bool { return e.Name == name })
	if at < 0 {
		return Unknown(name, "")
	}
	c := commands[at]
	text := folded("", "/"+c.label()+": "+c.Summary, "  ", columns)
	if c.Help != "" {
		text += folded("", c.Help, "", columns)
	}
	_, err := io.WriteString(out, text)
	return err
}

// columnsOf is how many columns a line may have that is written to out; 0 for any
// number.
func columnsOf(out io.Writer) int {
	if terminal, ok := out.(interface{ Columns() int }); ok {
		return terminal.Columns()
	}
	return 0
}

const (
	// maxColumn is the longest command for which a list makes room, in characters.
	maxColumn = 24
	// leastSummary is the room that a summary needs beside the commands. With less, it
	// is below its own.
	leastSummary = 30
)

// list shows the commands with their summaries.
func list(commands []Entry, columns int) string {
	width := 0
	for _, c := range commands {
		if n := utf8.RuneCountInString(c.label()); n <= maxColumn {
			width = max(width, n)
		}
	}
	beside := len("/") + width + len("  ")
	var text strings.Builder
	for _, c := range slices.SortedFunc(slices.Values(commands), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) }) {
		label := "/" + c.label()
		switch n := utf8.RuneCountInString(label); {
		case columns > 0 && columns-beside < leastSummary:
			text.WriteString(folded("", label, "    ", columns) + folded("    ", c.Summary, "    ", columns))
		case columns > 0 && n+len("  ") > beside:
			text.WriteString(folded("", label, "    ", columns) + folded(strings.Repeat(" ", beside), c.Summary, strings.Repeat(" ", beside), columns))
		default:
			head := label + strings.Repeat(" ", max(beside-n, len("  ")))
			text.WriteString(folded(head, c.Summary, strings.Repeat(" ", beside), columns))
		}
	}
	return text.String()
}

// folded is a text in lines of so many columns, which are broken between words. The
// first begins with head, the others with indent. A word that is longer than a line
// stays whole.
func folded(head, text, indent string, columns int) string {
	if columns == 0 {
		return head + text + "\n"
	}
	var lines strings.Builder
	line := head
	for paragraph := range strings.SplitSeq(text, "\n") {
		empty := true // the line has no word yet
		for word := range strings.FieldsSeq(paragraph) {
			if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
				lines.WriteString(line + "\n")
				line, empty = indent, true
			}
			if !empty {
				line += " "
			}
			line, empty = line+word, false
		}
		lines.WriteString(strings.TrimRight(line, " ") + "\n")
		line = indent
	}
	return lines.String()
}
