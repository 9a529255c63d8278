package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/markdown"
	"github.com/x/pygent/internal/markdown/htmlmark"
)

// text is an answer with what Markdown has, of so many bytes.
func text(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "## Part %d\n\nThere is **much** to say of `part %d`, with a [link](https://example.com/%d).\n\n- one\n- two\n\n", i, i, i)
		fmt.Fprintf(&b, "| Name | Lines |\n| --- | ---: |\n| part%d.go | %d |\n\n```go\nfunc part%d() int { return %d } // a comment\n```\n\n", i, i, i, i)
	}
	return b.String()[:size]
}

// ofToken is about how much a model writes at a time.
const ofToken = 16

// pieces calls f with each piece of a text.
func pieces(text string, f func(piece string)) {
	for len(text) > ofToken {
		f(text[:ofToken])
		text = text[ofToken:]
	}
	f(text)
}

// render renders the answer with each piece that comes, in both ways.
func (b *bench) render() {
	whole := text(b.answer)
	on, again := rendering{name: "from the open block"}, rendering{name: "all of it each time, extrapolated"}
	var splitter markdown.Splitter
	began := time.Now()
	pieces(whole, func(piece string) {
		last := time.Now()
		for _, block := range splitter.Write(piece) {
			htmlmark.Blocks(block, htmlmark.Options{})
		}
		htmlmark.Blocks(splitter.Open(), htmlmark.Options{Open: true})
		on.count, on.last = on.count+1, time.Since(last)
	})
	splitter.Close()
	on.took = time.Since(began)

	// All of it would take minutes: every hundredth rendering stands for a hundred.
	const every = 100
	seen := 0
	pieces(whole, func(piece string) {
		seen += len(piece)
		if again.count++; again.count%every == 0 || seen == len(whole) {
			last := time.Now()
			htmlmark.Blocks(whole[:seen], htmlmark.Options{Open: true})
			again.last = time.Since(last)
			if again.count%every == 0 {
				again.took += again.last * every
			}
		}
	})
	b.renderings = []rendering{on, again}
}
