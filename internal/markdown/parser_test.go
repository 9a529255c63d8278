package markdown

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
)

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct{ source, want string }{
		"GitHub's Markdown":            {"~~a~~ https://b.c\n\n- [x] d", "<p><del>a</del> <a href=\"https://b.c\">https://b.c</a></p>\n<ul>\n<li><input checked=\"\" disabled=\"\" type=\"checkbox\"> d</li>\n</ul>\n"},
		"a table":                      {"|a|b|\n|-|-|\n|`c\\|d`|e\\|f|", "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td><code>c|d</code></td>\n<td>e|f</td>\n</tr>\n</tbody>\n</table>\n"},
		"escaped pipes in code":        {"|a|\n|-|\n|`b\\|c\\|\\|d`|\n\n`e\\|f`", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td><code>b|c||d</code></td>\n</tr>\n</tbody>\n</table>\n<p><code>e\\|f</code></p>\n"},
		"references stay as written":   {"[a][1], [b]\n\n[1]: c\n[b]: d\n", "<p>[a][1], [b]</p>\n<p>[1]: c\n[b]: d</p>\n"},
		"a table with too many cells":  {"|a|b|c|\n|-|-|-|\n" + strings.Repeat("d\n", 9) + "e", "<p>|a|b|c|\n|-|-|-|\n" + strings.Repeat("d\n", 9) + "e</p>\n"},
		"links beyond what is counted": {strings.Repeat("[a](b)", maxLinks/2) + "[c](d)", "<p>" + strings.Repeat(`<a href="b">a</a>`, maxLinks/2) + "[c](d)</p>\n"},
		"each paragraph has its count": {strings.Repeat("[", maxLinks) + "\n\n[a](b)", "<p>" + strings.Repeat("[", maxLinks) + "</p>\n<p><a href=\"b\">a</a></p>\n"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, toHTML(t, tt.source)) })
	}
}

func TestParseBoundsNesting(t *testing.T) {
	for mark, each := range map[string]int{">": 1, "> ": 1, "- ": 1, "1. ": 1, "- > ": 2} {
		nested := func(times int) int {
			html := toHTML(t, strings.Repeat(mark, times)+"a\n"+strings.Repeat(mark, times)+"b\n")
			return strings.Count(html, "</blockquote>") + strings.Count(html, "</ul>") + strings.Count(html, "</ol>")
		}
		require.LessOrEqual(t, 8*each, nested(8), "%q", mark)
		require.LessOrEqual(t, nested(10_000), 2*maxDepth, "%q", mark)
	}
	depth := 0
	require.NoError(t, ast.Walk(Parse([]byte(strings.Repeat("*a _b ", 10_000)+strings.Repeat("c_ d* ", 10_000))), func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		if n.Type() == ast.TypeInline {
			depth = max(depth, above(n))
		}
		return ast.WalkContinue, nil
	}))
	require.Less(t, depth, maxEmphasis)
}

var keysAtStart = parser.ContextKeyMax

// goldmark numbers its keys without a lock, so none may be made by a first text beside
// others that are parsed already.
func TestATextMakesNoKeys(t *testing.T) {
	Parse([]byte("*a* [b](c) ~~d~~\n"))
	require.Equal(t, keysAtStart, parser.ContextKeyMax)
}
