package taskpool

import "strings"

// lineEnds are all that some program takes for the end of a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// NoticeLines returns a text in which each line ends in a line feed.
func NoticeLines(text string) string { return lineEnds.Replace(text) }

// Indented has each further line of a text begin with blanks, so that none can pass for
// a notice of its own.
func Indented(text string) string {
	lines := strings.Split(strings.Trim(NoticeLines(text), "\n"), "\n")
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}
