//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package markdown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What takes time with the square of its size does not end here.
func TestParseOfLargeTexts(t *testing.T) {
	for _, part := range []string{
		"[", "![", "[a](", "[a](<b", `[a](b "c `, "[a][b", "[a]", "[[a](b)", "*a ", "a* ", "*a_ ", "*a **b ", "**x [a*b**c*](d)", "~~a ", "~a *b _c ", "`a ``b ", "`` ` ``` ",
		"<", "<a ", "a <!-- ", "a <? ", "a <![CDATA[", `x <a b="`, "<http:", "<a@", "a <!A ", "&", " http://a.b", "(http://a.b/", " www.a", " a@b", " a.a.a.a@a", "a\n", "\\\n", "\\", "a  \n",
		">", "- a ", "> > > > a\n", "|-|-|\n", "    a\n", "\t", "# *a ", "# a\n", "a\n=\n", "<div>\n",
	} {
		Parse([]byte(strings.Repeat(part, 1<<16/len(part))))
	}
	Parse([]byte(strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16)))
	Parse([]byte("|a|b|\n|-|-|\n" + strings.Repeat("|`a\\|`|b|\n", 10_000)))
	Parse([]byte(strings.Repeat("|a", 1<<15) + "|\n" + strings.Repeat("|-", 1<<15) + "|\n" + strings.Repeat("a\n", 1<<16)))
}

// What takes time or memory with the square of its size does not end here.
func TestSplitterOfLargeTexts(t *testing.T) {
	for name, text := range map[string]string{
		"no line end":      strings.Repeat("a", 1<<20),
		"spaces":           strings.Repeat(" ", 1<<20) + "a",
		"quotes":           strings.Repeat(">", 1<<20),
		"lists":            strings.Repeat("- ", 1<<19),
		"lists and quotes": strings.Repeat("- > ", 1<<18) + "\n",
		"items":            strings.Repeat("1. a\n", 100_000),
		"deep items":       strings.Repeat("- ", 100) + "a\n" + strings.Repeat(strings.Repeat(" ", 40)+"b\n", 1<<13),
		"blank lines":      strings.Repeat("- ", 100) + "a" + strings.Repeat("\n", 1<<20),
		"blanks and text":  strings.Repeat("- ", 100) + "a\n" + strings.Repeat("\n  b\n", 1<<14),
		"long line first":  strings.Repeat("a", 1<<19) + strings.Repeat("\na", 1<<16),
		"lines":            strings.Repeat("a\n", 1<<16),
		"code":             "```\n" + strings.Repeat("\n", 1<<20),
		"table rows":       "|a|\n|-|\n" + strings.Repeat("|a|\n", 1<<16),
		"table cells":      strings.Repeat("|a", 1<<17) + "|\n" + strings.Repeat("|-", 1<<17) + "|\n" + strings.Repeat("a\n", 1<<16),
		"table marks":      strings.Repeat("|-|-|\n", 1<<16),
		"tags":             strings.Repeat("<a b='c'\n", 1<<12),
		"headings":         strings.Repeat("a\n=\n", 1<<14),
		"thematic breaks":  strings.Repeat("---\n", 1<<14),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, len(text), len(strings.Join(split(text, 100), "")))
		})
	}
}
