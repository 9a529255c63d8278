package htmlmark_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/x/pygent/internal/markdown/htmlmark"
)

func TestRender(t *testing.T) {
	const linked = ` target="_blank" rel="noopener noreferrer nofollow" title="`
	for source, want := range map[string]string{
		"":                               "",
		"# A *b* `c`":                    "<h1>A <em>b</em> <code>c</code></h1>",
		"a\n\n- b\n- [x] c\n":            "<p>a</p><ul><li>b</li><li>☑ c</li></ul>",
		"2. a":                           `<ol start="2"><li>a</li></ol>`,
		"<b onclick=x>a</b>":             "<p>&lt;b onclick=x&gt;a&lt;/b&gt;</p>",
		"<script>\nalert(1)\n</script>":  "<pre>&lt;script&gt;\nalert(1)\n&lt;/script&gt;</pre>",
		"[a](https://b.c/?d=\"e)":        `<p><a href="https://b.c/?d=&#34;e"` + linked + `https://b.c/?d=&#34;e">a</a></p>`,
		"[a](javascript:alert(1))":       "<p>a (javascript:alert(1))</p>",
		"[a](JaVaScRiPt&#58;alert(1))":   "<p>a (JaVaScRiPt:alert(1))</p>",
		"[a](//b.c)":                     "<p>a (//b.c)</p>",
		"![a](https://b.c/d.png)":        "<p>[image: a (https://b.c/d.png)]</p>",
		"![a](data:image/svg+xml,<svg>)": "<p>[image: a (data:image/svg+xml,&lt;svg&gt;)]</p>",
		"a\x1b[31mb\u202ec":              "<p>a␛[31mb&lt;U+202E&gt;c</p>",
		"|a|b|\n|-|:-:|\n|c|d|":          `<div class="scroll" tabindex="0"><table><tr><th>a</th><th>b</th></tr><tr><td>c</td><td>d</td></tr></table></div>`,
	} {
		t.Run(source, func(t *testing.T) { require.Equal(t, want, htmlmark.Render(source, htmlmark.Options{})) })
	}
	require.Equal(t, `<p class="open">a</p>`, htmlmark.Render("a", htmlmark.Options{Open: true}))
}

// allowed are the attributes of each element that is made.
var allowed = map[string][]string{
	"a": {"href", "target", "rel", "title"}, "img": {"src", "alt"}, "div": {"class", "tabindex"}, "pre": {"class", "tabindex"},
	"button": {"type", "class", "data-act"}, "ol": {"start", "class"}, "ul": {"class"}, "span": {"class"}, "p": {"class"}, "blockquote": {"class"},
	"h1": {"class"}, "h2": {"class"}, "h3": {"class"}, "h4": {"class"}, "h5": {"class"}, "h6": {"class"},
	"hr": nil, "br": nil, "em": nil, "strong": nil, "del": nil, "code": nil, "li": nil, "table": nil, "tr": nil, "th": nil, "td": nil,
}

// Whatever a model writes, the elements and attributes are those that are known, links
// lead out by http, https or mailto, and nothing is loaded.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"# a\n\n*b* **c** ~~d~~ `e`\n\n```go\nf(\"<\")\n```\n> g\n\n1. h\n- i\n", "<script>alert(1)</script>", "[a](javascript:b)", "![a](http://b)",
		"<https://a.b>", "a@b.c https://d.e?f=\"g", "![a](data:image/png;base64,AAAA)", "[a]: javascript:b\n\n[a]", "|a|\n|-|\n|<b>|", "\x00\x1b\u202e&#x202e;&lt;b&gt;",
		"[a](data:text/html,<b>)", "[x](http://a\"onclick=\"b)", "<a href='b'>", "```<b>\nc", "[a](vbscript&colon;b)",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, source string, open bool) {
		if len(source) > 4096 {
			return
		}
		got := htmlmark.Render(source, htmlmark.Options{Open: open})
		z := html.NewTokenizer(strings.NewReader(got))
		for z.Next() != html.ErrorToken {
			token := z.Token()
			if token.Type == html.CommentToken || token.Type == html.DoctypeToken {
				t.Fatalf("%q: %s", source, got)
			}
			if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
				continue
			}
			names, known := allowed[token.Data]
			require.True(t, known, "%s in %s", token.Data, got)
			for _, a := range token.Attr {
				require.True(t, slices.Contains(names, a.Key), "%s of %s in %s", a.Key, token.Data, got)
				switch a.Key {
				case "href":
					u, err := url.Parse(a.Val)
					require.NoError(t, err)
					require.Contains(t, []string{"http", "https", "mailto"}, strings.ToLower(u.Scheme))
				case "src":
					require.Regexp(t, `^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$`, a.Val)
				}
			}
		}
	})
}
