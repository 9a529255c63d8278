package htmlmark

import (
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// renderer renders a text.
type renderer struct {
	source []byte
	open   ast.Node // the block that more text follows; nil for none
	out    strings.Builder
}

// blocks renders the blocks in a container. The paragraphs of a tight list are bare.
func (r *renderer) blocks(container ast.Node, tight bool) {
	for n := container.FirstChild(); n != nil; n = n.NextSibling() {
		r.block(n, tight)
	}
}

func (r *renderer) block(n ast.Node, tight bool) {
	switch n := n.(type) {
	case *ast.Heading:
		r.element("h"+strconv.Itoa(min(max(n.Level, 1), 6)), n, func() { r.inline(n) })
	case *ast.ThematicBreak:
		r.out.WriteString("<hr>")
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = string(n.Info.Value(r.source))
		}
		r.code(language(info), r.lines(n.Lines()), ast.Node(n) == r.open)
	case *ast.CodeBlock:
		r.code("", r.lines(n.Lines()), ast.Node(n) == r.open)
	case *ast.HTMLBlock:
		source := r.lines(n.Lines())
		if n.HasClosure() {
			source += string(n.ClosureLine.Value(r.source))
		}
		r.element("pre", n, func() { r.out.WriteString(Text(strings.TrimRight(source, "\r\n"))) })
	case *ast.Blockquote:
		r.element("blockquote", n, func() { r.blocks(n, false) })
	case *ast.List:
		r.list(n)
	case *extast.Table:
		r.table(n)
	case *ast.TextBlock:
		r.inline(n)
		if n.NextSibling() != nil {
			r.out.WriteString("<br>")
		}
	default:
		if tight {
			r.inline(n)
			return
		}
		r.element("p", n, func() { r.inline(n) })
	}
}

// element writes an element, which has the class "open" if more text follows in it.
func (r *renderer) element(name string, n ast.Node, inner func()) {
	r.out.WriteString("<" + name)
	if n == r.open {
		r.out.WriteString(` class="open"`)
	}
	r.out.WriteString(">")
	inner()
	r.out.WriteString("</" + name + ">")
}

func (r *renderer) lines(segments *text.Segments) string {
	var b strings.Builder
	for i := range segments.Len() {
		s := segments.At(i)
		b.Write(s.Value(r.source))
	}
	return b.String()
}

// code writes a code block with its language and a button that copies it.
func (r *renderer) code(language, source string, open bool) {
	source = strings.TrimRight(source, "\r\n")
	class := "code"
	if open {
		class += " open"
	}
	r.out.WriteString(`<div class="` + class + `"><div class="bar"><span>` + Text(language) +
		`</span><button type="button" class="btn quiet" data-act="copy">Copy</button></div><pre class="chroma" tabindex="0"><code>`)
	if open {
		r.out.WriteString(Text(source))
	} else {
		r.out.WriteString(Highlight(language, source))
	}
	r.out.WriteString("</code></pre></div>")
}

// language returns the language in the info string of a fence: "go" in "go title=x",
// "{.go}" and "go:main.go".
func language(info string) string {
	info = strings.TrimLeft(info, " \t{.")
	if i := strings.IndexAny(info, " \t,;:{}"); i >= 0 {
		info = info[:i]
	}
	return info
}

func (r *renderer) list(n *ast.List) {
	name := "ul"
	if n.IsOrdered() {
		name = "ol"
	}
	r.out.WriteString("<" + name)
	if ast.Node(n) == r.open {
		r.out.WriteString(` class="open"`)
	}
	if n.IsOrdered() && n.Start != 1 {
		r.out.WriteString(` start="` + strconv.Itoa(n.Start) + `"`)
	}
	r.out.WriteString(">")
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		r.out.WriteString("<li>")
		r.blocks(item, n.IsTight)
		r.out.WriteString("</li>")
	}
	r.out.WriteString("</" + name + ">")
}

// table writes a table, which scrolls in itself. Cells are not aligned: that would
// need a style.
func (r *renderer) table(n *extast.Table) {
	r.out.WriteString(`<div class="scroll" tabindex="0"><table>`)
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		cell := "td"
		if row.Kind() == extast.KindTableHeader {
			cell = "th"
		}
		r.out.WriteString("<tr>")
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			r.out.WriteString("<" + cell + ">")
			r.inline(c)
			r.out.WriteString("</" + cell + ">")
		}
		r.out.WriteString("</tr>")
	}
	r.out.WriteString("</table></div>")
}
