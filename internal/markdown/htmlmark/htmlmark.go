// Package htmlmark renders the Markdown of models as HTML for a page.
//
// The HTML is made of a fixed set of elements: what is in the text is always
// text. HTML in the Markdown is shown as it is written, links lead to http, https and
// mailto only, and of images only those that are in the text itself are shown: the
// addresses of others are written out, so that nothing is loaded from elsewhere.
// There are no ids, no style attributes and no scripts.
//
// Blocks that a [markdown.Splitter] returns can be rendered one by one: joined, they
// are the whole text rendered.
package htmlmark

import (
	"html"
	"strings"

	"github.com/x/pygent/internal/markdown"
	"github.com/x/pygent/internal/screen"
)

// Options say how a text is rendered. The zero value is for a text that is complete.
type Options struct {
	// Open says that more of the text follows: its last block has the class "open",
	// and code is not highlighted yet.
	Open bool
}

// Bounds of what is rendered. Beyond them, a text is shown as it is written.
const (
	maxBlock = 256 << 10 // bytes of a block
	maxWhole = 64 << 10  // bytes of a text that is not split into blocks first
)

// Render renders Markdown: one block, several, or an unfinished one. A text without
// anything to show is empty.
func Render(source string, o Options) string { return strings.Join(Blocks(source, o), "") }

// Blocks is Render with an element for each block.
func Blocks(source string, o Options) (elements []string) {
	if len(source) <= maxWhole {
		return render(source, o)
	}
	var s markdown.Splitter
	blocks := append(s.Write(source), s.Close()...)
	for i, block := range blocks {
		elements = append(elements, render(block, Options{Open: o.Open && i == len(blocks)-1})...)
	}
	return elements
}

// Text writes a text that is none of our own as HTML, with its control characters
// visible.
func Text(s string) string { return html.EscapeString(screen.Visible(s)) }

// Exact is Text for what must not hide anything, such as where a link leads.
func Exact(s string) string { return html.EscapeString(screen.Exact(s)) }

// render renders a text in one piece.
func render(source string, o Options) (elements []string) {
	defer func() {
		if recover() != nil { // a fault of goldmark's
			elements = asWritten(source)
		}
	}()
	if len(source) > maxBlock {
		return asWritten(source)
	}
	if !strings.HasSuffix(source, "\n") {
		source += "\n" // Without it, goldmark overlooks the language of a fence that has just begun.
	}
	r := &renderer{source: []byte(source)}
	document := markdown.Parse(r.source)
	if o.Open {
		r.open = document.LastChild()
	}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		r.out.Reset()
		r.block(n, false)
		if r.out.Len() > 0 {
			elements = append(elements, r.out.String())
		}
	}
	return elements
}

// asWritten is a text that is not rendered.
func asWritten(source string) []string {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	return []string{"<pre>" + Text(source) + "</pre>"}
}
