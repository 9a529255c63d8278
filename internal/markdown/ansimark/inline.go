package ansimark

import (
	"bufio"
	"bytes"
	"html"
	"regexp"
	"strings"

	"github.com/x/pygent/internal/screen"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	goldhtml "github.com/yuin/goldmark/renderer/html"
)

// inline returns the text in a block.
func (r *renderer) inline(block ast.Node, base style) []span {
	in := inliner{renderer: r}
	in.children(block, base)
	return in.spans
}

// inliner collects the text in a block.
type inliner struct {
	*renderer
	spans []span
}

func (in *inliner) children(n ast.Node, s style) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		in.node(c, s)
	}
}

func (in *inliner) node(n ast.Node, s style) {
	switch n := n.(type) {
	case *ast.Text:
		in.text(n, s)
	case *ast.String:
		in.add(string(n.Value), s)
	case *ast.CodeSpan:
		in.code(n, s)
	case *ast.Emphasis:
		if n.Level == 1 {
			s.italic = true
		} else {
			s.bold = true
		}
		in.children(n, s)
	case *extast.Strikethrough:
		s.struck = true
		in.plainOnly("~~", s)
		in.children(n, s)
		in.plainOnly("~~", s)
	case *ast.Link:
		in.link(n, s)
	case *ast.Image:
		in.image(n, s)
	case *ast.AutoLink:
		s.role, s.underline = roleAccent, true
		in.exact(string(n.Label(in.source)), s)
	case *ast.RawHTML:
		s.role = roleMuted
		in.add(string(n.Segments.Value(in.source)), s)
	case *extast.TaskCheckBox:
		box := "[ ] "
		if n.IsChecked {
			box = "[x] "
		}
		in.spans = append(in.spans, span{box, s, true})
	default:
		in.children(n, s)
	}
}

// add adds text of which every run of spaces is one space.
func (in *inliner) add(text string, s style) {
	in.spans = append(in.spans, span{text: oneLine(text), style: s})
}

// exact adds text that must not hide anything, for instance where a link leads.
func (in *inliner) exact(text string, s style) {
	in.spans = append(in.spans, span{text: strings.ReplaceAll(screen.Exact(text), "\n", " "), style: s, exact: true})
}

// plainOnly adds a mark for what only attributes would show otherwise.
func (in *inliner) plainOnly(mark string, s style) {
	if !in.options.Colours {
		in.spans = append(in.spans, span{text: mark, style: s})
	}
}

func (in *inliner) text(n *ast.Text, s style) {
	value := n.Segment.Value(in.source)
	if !n.IsRaw() {
		value = unescape(value)
	}
	in.add(string(value), s)
	switch {
	case n.HardLineBreak(), n.SoftLineBreak() && in.definitionAfter(n):
		in.spans = append(in.spans, span{text: "\n"})
	case n.SoftLineBreak():
		in.add(" ", s)
	}
}

// unescape returns a text without its backslashes and character references.
func unescape(value []byte) []byte {
	if !bytes.ContainsAny(value, `\&`) {
		return value
	}
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	goldhtml.DefaultWriter.Write(w, value) // as HTML, which is undone next
	_ = w.Flush()
	return []byte(html.UnescapeString(b.String()))
}

// definition is the beginning of a link reference definition, or of a footnote.
var definition = regexp.MustCompile(`^\[[^\]\n]{1,99}\]:`)

// definitionAfter reports whether the line after a text begins with a definition,
// which stays in a line of its own.
func (in *inliner) definitionAfter(n *ast.Text) bool {
	next, ok := n.NextSibling().(*ast.Text)
	return ok && definition.Match(in.source[next.Segment.Start:min(len(in.source), next.Segment.Start+200)])
}

func (in *inliner) code(n *ast.CodeSpan, s style) {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(in.source))
		}
	}
	content := strings.NewReplacer("\n", " ", "\t", " ").Replace(screen.Visible(b.String()))
	if !in.options.Colours {
		content = ticked(content)
	}
	s.role = roleCode
	in.spans = append(in.spans, span{text: content, style: s, exact: true})
}

// ticked returns code between backticks.
func ticked(content string) string {
	ticks := strings.Repeat("`", 1+longestRun(content, '`'))
	if len(ticks) > 1 {
		return ticks + " " + content + " " + ticks
	}
	return ticks + content + ticks
}

// longestRun returns the length of the longest run of a character.
func longestRun(s string, c byte) (longest int) {
	run := 0
	for i := range len(s) {
		if run++; s[i] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

func (in *inliner) link(n *ast.Link, s style) {
	label := s
	label.role, label.underline = roleAccent, true
	begin := len(in.spans)
	in.children(n, label)
	url := string(unescape(n.Destination))
	if shown := spell(in.spans[begin:]); shown == "" {
		in.exact(url, label)
		url = ""
	} else if shown == url || "mailto:"+shown == url {
		url = ""
	}
	in.destination(url, n.Title)
}

func (in *inliner) image(n *ast.Image, s style) {
	in.add("[image", s)
	if n.HasChildren() {
		in.add(": ", s)
		in.children(n, s)
	}
	in.add("]", s)
	in.destination(string(unescape(n.Destination)), n.Title)
}

// destination adds where a link leads, in brackets, and its title.
func (in *inliner) destination(url string, title []byte) {
	if url == "" && len(title) == 0 {
		return
	}
	s := style{role: roleMuted}
	in.add(" (", s)
	in.exact(url, s)
	if len(title) > 0 {
		if url != "" {
			in.add(" ", s)
		}
		in.add(`"`+string(unescape(title))+`"`, s)
	}
	in.add(")", s)
}

// spell returns the text of spans.
func spell(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// oneLine returns a visible text without line ends and tabs.
func oneLine(s string) string {
	s = screen.Visible(s)
	if !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(s)
}
