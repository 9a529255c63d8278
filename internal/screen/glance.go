package screen

import (
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

// Limits of what Glance shows of a text.
const (
	glanceLines = 20
	glanceLine  = 500 // bytes of a line
)

// Glance shortens a text that nobody has to judge, such as a tool's output. It
// returns the first and the last lines, with a line between them that counts the
// others.
func Glance(text string) []string {
	lines := strings.Split(text, "\n")
	if n := len(lines); n > glanceLines {
		half := glanceLines / 2
		rest := append([]string{"… " + numeral.Count(n-2*half, "line") + " …"}, lines[n-half:]...)
		lines = append(lines[:half:half], rest...)
	}
	for i, l := range lines {
		if len(l) > glanceLine {
			lines[i] = cut.Head(l, glanceLine) + " …"
		}
	}
	return lines
}
