// Package markdown reads the Markdown that models write. [Parse] parses a text, and
// [Splitter] splits one that is still arriving into finished blocks. Both use the
// block parsers of goldmark with the same settings: CommonMark with the tables,
// strikethrough, task lists and bare links of GitHub.
//
// Two things differ, so that a block means the same by itself as in its document,
// and so that a text which was made to do harm costs little:
//
//   - Link reference definitions are text. So "[a][1]" stays as it is written, and so
//     does "[1]: https://example.com": nothing depends on what comes later, and a
//     reader sees where a link leads.
//   - Nesting, emphasis, links and table cells are bounded (see limits.go). What is
//     beyond the bounds is text too.
//
// [Highlight] divides code into tokens, for faces that show it in colours.
package markdown

import (
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Parse parses a Markdown text. The nodes refer to the text by offsets, so it must
// not change. The time that it takes is linear in the size of the text, and nodes are
// nested at most some thousand levels deep. It is safe for concurrent use.
func Parse(source []byte) ast.Node {
	return shared().Parse(text.NewReader(source))
}

// shared returns the parser of this package, which has no state of its own.
var shared = sync.OnceValue(func() parser.Parser {
	inline := []util.PrioritizedValue{
		util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
		util.Prioritized(parser.NewCodeSpanParser(), 100),
		util.Prioritized(atMost(maxLinks, linksKey, parser.NewLinkParser()), 200),
		util.Prioritized(parser.NewAutoLinkParser(), 300),
		util.Prioritized(parser.NewRawHTMLParser(), 400),
		util.Prioritized(atMost(maxEmphasis, emphasisKey, parser.NewEmphasisParser()), 500),
		util.Prioritized(atMost(maxEmphasis, strikethroughKey, extension.NewStrikethroughParser()), 500),
		util.Prioritized(extension.NewLinkifyParser(), 999),
	}
	return parser.NewParser(
		parser.WithBlockParsers(blockParsers()...),
		parser.WithInlineParsers(inline...),
		parser.WithParagraphTransformers(paragraphTransformers()...),
		parser.WithASTTransformers(util.Prioritized(escapedPipes{}, 0)),
	)
})

// blockParsers returns goldmark's block parsers with bounded nesting.
func blockParsers() []util.PrioritizedValue {
	parsers := parser.DefaultBlockParsers()
	for i, p := range parsers {
		switch inner := p.Value.(parser.BlockParser); inner {
		case parser.NewListParser():
			parsers[i].Value = boundedList{inner}
		case parser.NewBlockquoteParser():
			parsers[i].Value = boundedQuote{inner}
		}
	}
	return parsers
}

func paragraphTransformers() []util.PrioritizedValue {
	return []util.PrioritizedValue{util.Prioritized(boundedTables{extension.NewTableParagraphTransformer()}, 200)}
}
