//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package ansimark

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What takes time with the square of its size does not end here.
func TestRenderOfLargeTexts(t *testing.T) {
	const size = 1 << 16
	for name, source := range map[string]string{
		"no line end":    strings.Repeat("a", size),
		"words":          strings.Repeat("a ", size/2),
		"Chinese":        strings.Repeat("文", size/3),
		"quotes":         strings.Repeat(">", size),
		"quotes in line": strings.Repeat("> ", 10_000) + "a",
		"lists":          strings.Repeat("- ", size/2),
		"items":          strings.Repeat("1. a\n", size/5),
		"blank lines":    strings.Repeat("- ", 100) + "a" + strings.Repeat("\n", size) + "b",
		"emphasis":       strings.Repeat("*a _b ", size/12) + strings.Repeat("c_ d* ", size/12),
		"brackets":       strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"images":         strings.Repeat("![", size/16) + "a" + strings.Repeat("](b)", size/16),
		"code":           "```go\n" + strings.Repeat("f(\"a\")\n", size/7) + "```",
		"long code line": "```go\n" + strings.Repeat("f(\"a\")", size/6),
		"table":          "|a|b|\n|-|-|\n" + strings.Repeat("|`a\\|`|b|\n", size/10),
		"columns":        strings.Repeat("|a", size/8) + "|\n" + strings.Repeat("|-", size/8) + "|\n" + strings.Repeat("a\n", size/4),
		"HTML":           strings.Repeat("<div>\n", size/6),
		"a huge block":   "```\n" + strings.Repeat("a\n", maxBlock/2),
		"definitions":    strings.Repeat("[a]: b\n", size/7),
		"controls":       strings.Repeat("\x1b", size),
		"backticks":      strings.Repeat("`` ` ``` ", size/9) + "````",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Width: 80, Colours: true}
			text := Render(source, o)
			require.NotEmpty(t, text)
			bare := func(text string) string { return sgr.ReplaceAllString(text, "") } // how much is highlighted depends on the time
			require.True(t, bare(text) == bare(blockwise(source, o)), "block by block")
		})
	}
}
