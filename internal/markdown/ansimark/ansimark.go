// Package ansimark renders the Markdown of models as text for a terminal.
//
// What is selected and copied is the text: lines end where their text ends, code is
// neither wrapped nor indented, nothing is in front of it (but the bars of a quote
// that it is in), and links are followed by their URL instead of hiding it. Prose is
// wrapped at word boundaries; words and URLs are never broken. Chinese and Japanese
// have no such boundaries, so the terminal breaks what is between two spaces.
//
// Whatever the source is, the only control sequences in the result are the SGR
// sequences of this package, and each line ends without attributes, so a line that is
// cut off there does not colour what follows. Everything else that could drive a
// terminal is made visible as package screen does it.
//
// Blocks that a [markdown.Splitter] returns can be rendered one by one: joined with an
// empty line between those that are not empty, they are the whole text rendered.
// Nothing refers to another block: link reference definitions are shown as they are
// written, and so are the links that use them.
//
// Highlighting uses chroma, whose expressions have a time limit. The clock for it is a
// goroutine of regexp2, which ends by itself some two seconds after the last use.
package ansimark

import (
	"cmp"
	"strings"
	"time"

	"github.com/x/pygent/internal/markdown"
	"github.com/x/pygent/internal/screen"
)

// Options say what is known of the terminal. The zero value is for text that does not
// go to a terminal.
type Options struct {
	Width   int  // columns; 80 by default, and at least 20
	Colours bool // without them there are no attributes either, and the marks of headings, code and strikethrough stay
	Tab     int  // columns between the tab stops of code, for which spaces are written; tabs stay by default

	patience time.Duration // for the highlighting of a block, on a busy machine; maxTime by default
}

// Bounds of what is rendered. Beyond them, a block is shown as it is written.
const (
	maxBlock = 256 << 10 // bytes of a block
	maxWhole = 64 << 10  // bytes of a text that is not split into blocks first
)

// Render renders Markdown: one block, several, or an unfinished one. Each line of the
// result ends with a line feed. A text without anything to show is empty.
func Render(source string, o Options) string {
	o.Width = max(20, cmp.Or(max(0, o.Width), 80))
	if len(source) <= maxWhole {
		return render(source, o)
	}
	var s markdown.Splitter
	var b strings.Builder
	for _, block := range append(s.Write(source), s.Close()...) {
		text := render(block, o)
		if b.Len() > 0 && text != "" {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return b.String()
}

// render renders a text in one piece.
func render(source string, o Options) (text string) {
	defer func() {
		if recover() != nil { // a fault of goldmark's
			text = asWritten(source)
		}
	}()
	if len(source) > maxBlock {
		return asWritten(source)
	}
	if !strings.HasSuffix(source, "\n") {
		source += "\n" // Without it, goldmark overlooks the language of a fence that has just begun.
	}
	r := newRenderer([]byte(source), o)
	r.blocks(markdown.Parse(r.source), false)
	return r.out.String()
}

// asWritten returns a source that is not rendered.
func asWritten(source string) string {
	source = strings.Trim(screen.Visible(source), "\n")
	if source == "" {
		return ""
	}
	return source + "\n"
}
