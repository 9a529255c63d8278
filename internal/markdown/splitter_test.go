package markdown

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
	"go.uber.org/goleak"
)

// split returns the blocks of a text that arrives in pieces of size bytes.
func split(text string, size int) (blocks []string) {
	var s Splitter
	for len(text) > 0 {
		n := min(size, len(text))
		blocks = append(blocks, s.Write(text[:n])...)
		text = text[n:]
	}
	return append(blocks, s.Close()...)
}

// toHTML returns a text as HTML.
func toHTML(t testing.TB, source string) string {
	t.Helper()
	r := renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(html.NewRenderer(html.WithUnsafe()), 1000),
		util.Prioritized(extension.NewTableHTMLRenderer(), 500),
		util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500),
		util.Prioritized(extension.NewTaskCheckBoxHTMLRenderer(), 500),
	))
	var b bytes.Buffer
	require.NoError(t, r.Render(&b, []byte(source), Parse([]byte(source))))
	return b.String()
}

// mean checks that a text's blocks by themselves mean what they mean in the text.
func mean(t testing.TB, source string, blocks []string) {
	t.Helper()
	require.Equal(t, source, strings.Join(blocks, ""), "blocks joined")
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString(toHTML(t, block))
	}
	require.Equal(t, toHTML(t, source), b.String(), "blocks of %q: %q", source, blocks)
}

func TestSplitter(t *testing.T) {
	for name, want := range map[string][]string{
		"nothing":                         nil,
		"blank lines":                     {"\n  \n\n"},
		"paragraphs":                      {"a\nb\n\n", "\nc\n \n", "d"},
		"headings":                        {"# a\n", "b\n", "## c\n", "\n###\n", "#no\n"},
		"headings with a line below":      {"a\nb\n===\n", "c\n---\n", "---\n", "d"},
		"a line below a list":             {"- a\n", "---\n", "b"},
		"a fence":                         {"a\n", "```go\nb\n\n\n# c\n```\n", "d"},
		"a fence that is not closed":      {"```\na\n\nb\n\n\n"},
		"a longer fence":                  {"````\n```\na\n```\n````\n", "~~~\n```\n~~~\n"},
		"indented code":                   {"a\n\n", "    b\n\n\n    c\n", "d\n    e\n\n", "\tf\n"},
		"a list":                          {"- a\n- b\n\n\n- c\n  d\n\n  e\n\n", "f\n"},
		"lists":                           {"- a\n", "* b\n", "1. c\n", "1) d\n"},
		"lazy lines":                      {"- a\nb\n- c\n\n", "> d\ne\n\n", "f"},
		"a fence in a list":               {"1. a\n   ```\n   b\n\n   c\n   ```\n2. d\n\n", "e"},
		"a fence that a list leaves open": {"- ```\n  a\n\n", "b\n"},
		"a fence between items":           {"1. a\n\n", "```\nb\n```\n", "\n2. c\n"},
		"an item without text":            {"-\n\n", "  a\n"},
		"a list in a list":                {"- a\n  - b\n    - c\n\n      d\n- e\n"},
		"a quote":                         {"> a\n> b\n\n", "> c\n> > d\ne\n"},
		"a fence in a quote":              {"> ```\n> a\n", "b\n\n", "> ```\n"},
		"a list in a quote":               {"> - a\n>\n> - b\n\n", "c"},
		"a table":                         {"a\n\n", "| a | b |\n| - | - |\n| 1 | 2 |\n\n", "b"},
		"a table and a list":              {"0\n-:\n", "-\n"},
		"a text and its table":            {"x\n|a|b|\n|-|-|\n|1|2|\n", "# c\n"},
		"HTML":                            {"<div>\na\n</div>\n\n", "<!-- a\n\nb -->\n", "<pre>\n\n</pre>\n", "b"},
		"a comment in a line":             {"<!-- a -->\n", "b\n\n"},
		"line ends of Windows":            {"a\r\n\r\n", "- b\r\n\r\n- c\r\n\r\n", "```\r\n\r\n```\r\n", "# d\r\n", "e\r\n===\r\n"},
		"carriage returns":                {"a\r\rb\r"},
		"a definition":                    {"[a]: b\n[c]\n\n", "[a]"},
		"conflict marks":                  {">>>>>>> a\n\n", "<<<<<<< b\n=======\n"},
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.Join(want, "")
			for size := 1; size <= len(source)+1; size++ {
				require.Equal(t, want, split(source, size), "in pieces of %d bytes", size)
			}
			mean(t, source, want)
		})
	}
}

func TestSplitterReturnsBlocksAsSoonAsTheyEnd(t *testing.T) {
	var s Splitter
	for _, step := range []struct {
		piece  string
		blocks []string
		open   string
	}{
		{"a", nil, "a"},
		{" b\n", nil, "a b\n"},
		{"\n", []string{"a b\n\n"}, ""},
		{"# c", nil, "# c"},
		{"\n", []string{"# c\n"}, ""},
		{"```\nd\n``", nil, "```\nd\n``"},
		{"`\n", []string{"```\nd\n```\n"}, ""},
		{"\n", nil, "\n"},
		{"- e\n\n", nil, "\n- e\n\n"},
		{" ", nil, "\n- e\n\n "},
		{" f\n\n", nil, "\n- e\n\n  f\n\n"},
		{"The", []string{"\n- e\n\n  f\n\n"}, "The"},
		{" end\n# g\nh", []string{"The end\n", "# g\n"}, "h"},
	} {
		require.Equal(t, step.blocks, s.Write(step.piece), "after %q", step.piece)
		require.Equal(t, step.open, s.Open(), "after %q", step.piece)
	}
	require.Equal(t, []string{"h"}, s.Close())
	require.Empty(t, s.Open())
	require.Equal(t, []string{"i\n\n"}, s.Write("i\n\n"), "it can be used again")
	require.Empty(t, s.Close())
}

func FuzzSplitter(f *testing.F) {
	for _, seed := range []string{
		"a\nb\n\n# c\nd\n===\n- e\n\n  f\n* g\n", "> a\nb\n\n```\nc\n\n```\n|a|b|\n|-|-|\n|1|`\\|`|\n", "0\n-:\n-\n", "1. a\n\n   ```\n   b\n\n2. c\n\n\n      d\n",
		"<!-- a -->\n<div>\n\n<pre>\n\n</pre>\n", "a\r\n\r\n\tb\r\n", "[a]: b\n===\n[a]\n", "-\n\n  a\n- ***\n- b\n", ">>>>>> a\n> - b\n> \n>   c\n", "- - - a\n***\n* b\n* * *\n",
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, source string, size int) {
		if len(source) > 4096 {
			return
		}
		blocks := split(source, len(source)+1)
		require.Equal(t, blocks, split(source, 1+max(size, 0)%len(source+" ")), "in pieces")
		mean(t, source, blocks)
		for _, block := range blocks {
			require.LessOrEqual(t, len(split(block, len(block))), 1, "a block is not split again: %q", block)
		}
	})
}

// Texts of the marks that decide about blocks find more than those of a fuzzer.
func TestSplitterOfRandomMarks(t *testing.T) {
	marks := strings.Split(" |  |   |    |\t|\n|\n|\n|\n\n|\r\n|- |* |+ |-|1. |2. |1) |> |>|# |===|---|***|```|~~~|````|a|b|a b|<div>|</div>|<!--|-->|<pre>|</pre>|[a]: b|[a]|`|*|\\|", "|")
	marks = append(marks, "|", "|a|b|\n|-|-|\n", "| - |", "-:\n")
	random := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		var b strings.Builder
		for range 1 + random.IntN(30) {
			b.WriteString(marks[random.IntN(len(marks))])
		}
		source := b.String()
		blocks := split(source, len(source))
		require.Equal(t, blocks, split(source, 1), "byte by byte")
		mean(t, source, blocks)
	}
}

func TestSplitterLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // tests before it highlight code, whose clock ticks on
	var s Splitter
	s.Write("- a\n- b\n\n# c\nd")
	s.Close()
	s.Close()
}

func BenchmarkSplitter(b *testing.B) {
	text := strings.Repeat("# Title\n\nSome *text* in a paragraph,\nand more.\n\n- an item\n- one more\n\n```go\nfunc f() {\n}\n```\n\n", 10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		split(text, 20)
	}
}
