package ansimark

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/screen"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// renderer renders a text.
type renderer struct {
	source  []byte
	options Options
	out     strings.Builder

	first []span // what comes before the next line: quotes' bars, indentation, an item's mark
	rest  []span // what comes before the lines after it
	bars  []span // the bars in rest
	loose bool   // whether a code block was the last that was written
}

func newRenderer(source []byte, o Options) *renderer {
	return &renderer{source: source, options: o}
}

// blocks renders the blocks in a container, with an empty line between each two
// unless they are tight.
func (r *renderer) blocks(container ast.Node, tight bool) {
	for n := container.FirstChild(); n != nil; n = n.NextSibling() {
		if n.PreviousSibling() != nil {
			r.separate(n, tight)
		}
		r.block(n)
	}
}

// separate writes the empty line before a block. Code always has one, because it is
// not indented with the list that it is in.
func (r *renderer) separate(n ast.Node, tight bool) {
	if !tight || r.loose || isCode(n) {
		r.line()
	}
	r.loose = false
}

func isCode(n ast.Node) bool {
	return n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock
}

func (r *renderer) block(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.ThematicBreak:
		r.line(span{text: strings.Repeat("─", min(r.room(), 24)), style: style{role: roleMuted}})
	case *ast.FencedCodeBlock:
		info := ""
		if n.Info != nil {
			info = string(n.Info.Value(r.source))
		}
		r.code(info, n.Lines())
	case *ast.CodeBlock:
		r.code("", n.Lines())
	case *ast.HTMLBlock:
		r.html(n)
	case *ast.Blockquote:
		r.quote(n)
	case *ast.List:
		r.list(n)
	case *extast.Table:
		r.table(n)
	default:
		r.prose(r.inline(n, style{}))
	}
}

// room returns the columns that are left for text.
func (r *renderer) room() int {
	return max(10, r.options.Width-max(width(r.first), width(r.rest)))
}

// prose writes wrapped text.
func (r *renderer) prose(spans []span) {
	lines := wrap(spans, r.room(), max(width(r.first), width(r.rest)))
	for _, line := range lines {
		r.line(line...)
	}
	if len(lines) == 0 {
		r.line()
	}
}

func (r *renderer) heading(n *ast.Heading) {
	s := style{bold: true}
	if n.Level <= 2 {
		s.role = roleAccent
	}
	spans := r.inline(n, s)
	if !r.options.Colours {
		spans = slices.Insert(spans, 0, span{text: strings.Repeat("#", n.Level) + " "})
	}
	r.prose(spans)
}

// html writes HTML as it is written.
func (r *renderer) html(n *ast.HTMLBlock) {
	lines := r.lines(n.Lines())
	if n.HasClosure() {
		lines = append(lines, r.visible(n.ClosureLine))
	}
	for _, line := range lines {
		r.line(r.expandTabs([]span{{text: line, style: style{role: roleMuted}}})...)
	}
}

// lines returns the lines of a block, visible and without their ends.
func (r *renderer) lines(segments *text.Segments) []string {
	lines := make([]string, 0, segments.Len())
	for i := range segments.Len() {
		lines = append(lines, r.visible(segments.At(i)))
	}
	return lines
}

func (r *renderer) visible(segment text.Segment) string {
	value := bytes.TrimRight(segment.Value(r.source), "\r\n")
	return strings.ReplaceAll(screen.Visible(string(value)), "\n", " ")
}

func (r *renderer) quote(n *ast.Blockquote) {
	bar := span{text: "│ ", style: style{role: roleMuted}}
	bars := r.bars
	r.bars = append(slices.Clip(bars), bar)
	r.nest(bar, bar, func() { r.blocks(n, false) })
	r.bars = bars
}

// nest renders something within a container: with a prefix before its first line, and
// one before each other. In a narrow terminal, the inner ones of many containers are
// not indented.
func (r *renderer) nest(first, rest span, render func()) {
	outer := r.rest
	r.first = append(slices.Clip(r.first), first)
	if width(outer)+columnsOf(rest.text) <= r.options.Width/2 {
		r.rest = append(slices.Clip(outer), rest)
	}
	before := r.out.Len()
	render()
	if r.out.Len() == before {
		r.line()
	}
	r.first, r.rest = outer, outer
}

func (r *renderer) list(n *ast.List) {
	i := n.Start - 1
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item.PreviousSibling() != nil {
			r.separate(item, n.IsTight)
		}
		mark := "- "
		if n.IsOrdered() {
			i = max(i+1, r.number(item))
			mark = fmt.Sprintf("%d%c ", i, n.Marker)
		}
		indent := strings.Repeat(" ", len(mark))
		r.nest(span{text: mark, style: style{role: roleAccent}}, span{text: indent}, func() { r.blocks(item, n.IsTight) })
	}
}

// number returns the number of an item as it is written, or zero. It is kept where the
// numbers of a list rise, because the text may refer to it.
func (r *renderer) number(item ast.Node) (number int) {
	source := r.source[min(max(0, item.Pos()), len(r.source)):]
	for _, c := range source[:min(9, len(source))] {
		if c < '0' || c > '9' {
			break
		}
		number = 10*number + int(c-'0')
	}
	return number
}
