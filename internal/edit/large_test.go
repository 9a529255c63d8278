//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package edit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/x/pygent/internal/edit"
)

// TestHostileTextsTakeNoLonger would not end if the work grew with the square of
// the lengths.
func TestHostileTextsTakeNoLonger(t *testing.T) {
	if testing.Short() {
		t.Skip("edits texts of megabytes")
	}
	const size = 2 << 20
	hundred := func(e edit.Edit) []edit.Edit {
		edits := make([]edit.Edit, 100)
		for i := range edits {
			edits[i] = e
			edits[i].New += fmt.Sprint(i)
		}
		return edits
	}
	for name, tt := range map[string]struct {
		text  string
		edits []edit.Edit
	}{
		"the same letter":        {strings.Repeat("a", size), hundred(edit.Edit{Old: strings.Repeat("a", size/2) + "b"})},
		"the same line":          {strings.Repeat("}\n", size/2), hundred(edit.Edit{Old: strings.Repeat("}\n", size/4) + "x"})},
		"empty lines":            {strings.Repeat("\n", size), hundred(edit.Edit{Old: strings.Repeat("\n", size/2) + "x"})},
		"blank lines":            {strings.Repeat(" \r\n", size/3), hundred(edit.Edit{Old: strings.Repeat("\t\n", size/4) + "x"})},
		"everything replaced":    {strings.Repeat("a", size/4), []edit.Edit{{Old: "a", New: "b", All: true}, {Old: "b", New: "\n", All: true}}},
		"everything, CRLF":       {strings.Repeat("a", size/4) + "\r\n", []edit.Edit{{Old: "a", New: "b", All: true}}},
		"everything, numbered":   {numbered(10_000), hundred(edit.Edit{Old: "line", New: "line", All: true})},
		"everywhere, ambiguous":  {strings.Repeat("a", size/4), hundred(edit.Edit{Old: "a"})},
		"one long line, spelled": {strings.Repeat("some words ", size/11), hundred(edit.Edit{Old: strings.Repeat("some wrods ", size/22)})},
		"numbers":                {numbered(10_000), hundred(edit.Edit{Old: strings.Repeat("1\tx\n", size/8)})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _ = edit.Apply(tt.text, tt.edits)
		})
	}
}
