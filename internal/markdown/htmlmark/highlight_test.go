package htmlmark_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/markdown/htmlmark"
)

func TestHighlight(t *testing.T) {
	for _, test := range []struct{ language, source, want string }{
		{"go", "var x", `<span class="kd">var</span> <span class="nx">x</span>`},
		{"go", "// <script>\x1b", `<span class="c1">// &lt;script&gt;␛</span>`},
		{"", "a <b>", "a &lt;b&gt;"},
		{`go"><script>`, "a\r\n\x1b[31mb", "a\n␛[31mb"},
	} {
		require.Equal(t, test.want, htmlmark.Highlight(test.language, test.source))
	}
	fence := htmlmark.Render("```go\nvar x = 1\n```\n", htmlmark.Options{})
	require.Contains(t, fence, `<span class="kd">var</span>`)
	require.NotContains(t, htmlmark.Render("```go\nvar x = 1\n", htmlmark.Options{Open: true}), "<span class=\"kd\">", "it is not finished")
}

var element = regexp.MustCompile(`<span class="[a-z0-9]+">|</span>`)

// Whatever the code is, only spans are around it.
func FuzzHighlight(f *testing.F) {
	for _, language := range []string{"go", "html", "js", "bash", "none"} {
		f.Add(language, "<script>alert('a')</script> & \"b\" `c` \x1b[31m\n// d")
	}
	f.Fuzz(func(t *testing.T, language, code string) {
		if len(code) > 1024 {
			return
		}
		got := html.UnescapeString(element.ReplaceAllString(htmlmark.Highlight(language, code), ""))
		want := html.UnescapeString(htmlmark.Text(strings.ReplaceAll(code, "\r\n", "\n")))
		require.Equal(t, want, got)
		require.NotRegexp(t, `<[^/s]`, element.ReplaceAllString(htmlmark.Highlight(language, code), ""))
	})
}
