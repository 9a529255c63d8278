package htmlmark

import (
	"bufio"
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	goldhtml "github.com/yuin/goldmark/renderer/html"
)

// inline writes the text in a block.
func (r *renderer) inline(block ast.Node) {
	for c := block.FirstChild(); c != nil; c = c.NextSibling() {
		r.span(c)
	}
}

func (r *renderer) span(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		r.text(n)
	case *ast.String:
		r.out.WriteString(Text(string(n.Value)))
	case *ast.CodeSpan:
		r.codeSpan(n)
	case *ast.Emphasis:
		if n.Level == 1 {
			r.wrapped("em", n)
		} else {
			r.wrapped("strong", n)
		}
	case *extast.Strikethrough:
		r.wrapped("del", n)
	case *ast.Link:
		r.link(string(unescape(n.Destination)), func() { r.inline(n) })
	case *ast.Image:
		r.image(n)
	case *ast.AutoLink:
		label := string(n.Label(r.source))
		r.link(autoLink(n, r.source), func() { r.out.WriteString(Exact(label)) })
	case *ast.RawHTML:
		r.out.WriteString(Text(string(n.Segments.Value(r.source))))
	case *extast.TaskCheckBox:
		box := "☐ "
		if n.IsChecked {
			box = "☑ "
		}
		r.out.WriteString(box)
	default:
		r.inline(n)
	}
}

func (r *renderer) wrapped(name string, n ast.Node) {
	r.out.WriteString("<" + name + ">")
	r.inline(n)
	r.out.WriteString("</" + name + ">")
}

func (r *renderer) text(n *ast.Text) {
	value := n.Segment.Value(r.source)
	if !n.IsRaw() {
		value = unescape(value)
	}
	r.out.WriteString(Text(string(value)))
	switch {
	case n.HardLineBreak():
		r.out.WriteString("<br>")
	case n.SoftLineBreak():
		r.out.WriteString("\n")
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

func (r *renderer) codeSpan(n *ast.CodeSpan) {
	r.out.WriteString("<code>")
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			r.out.WriteString(strings.ReplaceAll(Text(string(t.Segment.Value(r.source))), "\n", " "))
		}
	}
	r.out.WriteString("</code>")
}

// autoLink returns where a bare link leads.
func autoLink(n *ast.AutoLink, source []byte) string {
	address := string(n.URL(source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(address), "mailto:") {
		return "mailto:" + address
	}
	return address
}

// link writes a link, or its text with the address if that must not be followed.
func (r *renderer) link(address string, label func()) {
	if !leadsOut(address) {
		label()
		if address != "" {
			r.out.WriteString(" (" + Exact(address) + ")")
		}
		return
	}
	r.out.WriteString(`<a href="` + html.EscapeString(address) + `" target="_blank" rel="noopener noreferrer nofollow" title="` + Exact(address) + `">`)
	before := r.out.Len()
	label()
	if r.out.Len() == before {
		r.out.WriteString(Exact(address))
	}
	r.out.WriteString("</a>")
}

// leadsOut reports whether an address may be followed: one of the web, or of a person.
func leadsOut(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return u.Opaque != ""
	}
	return false
}

// inText matches an image that is in the text itself, of a format that cannot hold a
// script.
var inText = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$`)

// Image writes an image, if it is one that can be shown without loading anything from
// elsewhere. It reports false for all others.
func Image(address, alt string) (string, bool) {
	if !inText.MatchString(address) {
		return "", false
	}
	return `<img src="` + address + `" alt="` + Text(alt) + `">`, true
}

func (r *renderer) image(n *ast.Image) {
	address := string(unescape(n.Destination))
	inner := &renderer{source: r.source}
	inner.inline(n)
	alt := plainOf(inner.out.String())
	if img, ok := Image(address, alt); ok {
		r.out.WriteString(img)
		return
	}
	const shown = 200
	if len(address) > shown {
		address = address[:shown] + "…"
	}
	r.out.WriteString("[image")
	if alt != "" {
		r.out.WriteString(": " + Text(alt))
	}
	r.out.WriteString(" (" + Exact(strings.ToValidUTF8(address, "")) + ")]")
}

// aTag matches an element of our own.
var aTag = regexp.MustCompile(`<[^>]*>`)

// plainOf returns the text of HTML that this package has made.
func plainOf(made string) string { return html.UnescapeString(aTag.ReplaceAllString(made, "")) }

// Plain returns the text of HTML that this package has made, to be read aloud.
func Plain(made string) string { return strings.TrimSpace(plainOf(made)) }
