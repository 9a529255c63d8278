package edit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
)

// Change is how the text of a file changes, in a form to be shown.
type Change struct {
	Before, After string
	Line          int  // the number of the line, from 1, with which both begin
	Truncated     bool // they are not the whole texts
	Binary        bool // at least one is no text; then both are empty
}

// context is how many equal lines are kept around a change that is cut out of
// longer texts.
const context = 3

// Compare returns how one text becomes another, with at most most bytes of each.
// Of longer texts it leaves out equal lines at both ends, and of what is still
// too long the end.
func Compare(before, after []byte, most int) Change {
	if !isText(before) || !isText(after) {
		return Change{Binary: true}
	}
	c := Change{Before: string(before), After: string(after), Line: 1}
	if len(before) <= most && len(after) <= most {
		return c
	}
	c.Truncated = true
	c.dropHead()
	c.dropTail()
	c.Before, c.After = cut.Head(c.Before, most), cut.Head(c.After, most)
	return c
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// dropHead removes the equal lines at the beginning.
func (c *Change) dropHead() {
	same, most := 0, min(len(c.Before), len(c.After))
	for same < most && c.Before[same] == c.After[same] {
		same++
	}
	at := same
	for range context + 1 { // the first step leads to the beginning of the changed line
		if at = strings.LastIndexByte(c.Before[:at], '\n'); at < 0 {
			return
		}
	}
	at++
	c.Line += strings.Count(c.Before[:at], "\n")
	c.Before, c.After = c.Before[at:], c.After[at:]
}

// dropTail removes the equal lines at the end.
func (c *Change) dropTail() {
	same, most := 0, min(len(c.Before), len(c.After))
	for same < most && c.Before[len(c.Before)-1-same] == c.After[len(c.After)-1-same] {
		same++
	}
	tail := c.Before[len(c.Before)-same:]
	keep := 0
	for range context + 1 { // the first step leads to the end of the changed line
		next := strings.IndexByte(tail[keep:], '\n')
		if next < 0 {
			return
		}
		keep += next + 1
	}
	drop := len(tail) - keep
	c.Before, c.After = c.Before[:len(c.Before)-drop], c.After[:len(c.After)-drop]
}
