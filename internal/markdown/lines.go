package markdown

import (
	"iter"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// lineParser runs goldmark's block parsers on lines that come one after another.
// goldmark parses a whole text and decides about its blocks line by line. So it runs
// in a coroutine, which waits in its reader wherever the next line begins.
type lineParser struct {
	lines   *lineReader
	context parser.Context
	resume  func() (struct{}, bool)
	stop    func() // ends the coroutine
}

func newLineParser() *lineParser {
	p := &lineParser{lines: &lineReader{}, context: parser.NewContext()}
	p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() { _ = recover() }() // stopped, or a fault of goldmark's, which parse reports
		p.lines.wait = func() {
			if !yield(struct{}{}) {
				panic(stopped{}) // leaves goldmark's parser, which has no other way out
			}
		}
		blocksOnly().Parse(p.lines, parser.WithContext(p.context))
	})
	return p
}

// stopped is the panic with which an unfinished parse ends.
type stopped struct{}

// parse parses a line, which ends with a line feed, and returns the outermost block
// that is open after it, or nil. It returns false if goldmark has given up.
func (p *lineParser) parse(line []byte) (ast.Node, bool) {
	p.lines.add(line)
	if _, ok := p.resume(); !ok {
		return nil, false
	}
	if open := p.context.OpenedBlocks(); len(open) > 0 {
		return open[0].Node, true
	}
	return nil, true
}

// blocksOnly returns a parser that finds the same blocks as Parse. Nothing else is
// ever parsed by it: it is stopped before the text within the blocks is.
var blocksOnly = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(parser.WithBlockParsers(blockParsers()...), parser.WithParagraphTransformers(paragraphTransformers()...))
})

// lineReader is a reader of a text that grows: whoever advances to the next line waits
// for it. The inner reader takes its text for longer than it is, so it must not look
// beyond the line; block parsers do not.
type lineReader struct {
	text.Reader
	wait   func()
	source []byte
	size   int // how much of source is text
}

// add adds a line. It replaces the inner reader where the text outgrows its source.
func (r *lineReader) add(line []byte) {
	if r.size+len(line) > len(r.source) {
		source := make([]byte, 2*(r.size+len(line)))
		copy(source, r.source[:r.size])
		r.source = source
	}
	r.size += copy(r.source[r.size:], line)
	if r.Reader == nil {
		r.Reader = text.NewReader(r.source)
	}
}

// AdvanceLine waits for the next line and goes to its beginning.
func (r *lineReader) AdvanceLine() {
	r.wait()
	if number, at := r.Position(); len(r.Source()) < len(r.source) {
		r.Reader = text.NewReader(r.source)
		r.SetPosition(number, at)
	}
	r.Reader.AdvanceLine()
}

// SkipBlankLines goes to the next line that is not blank. A text begins with one, and
// a parser is not used again after a block.
func (r *lineReader) SkipBlankLines() (text.Segment, int, bool) {
	_, at := r.PeekLine()
	return at, 0, true
}
