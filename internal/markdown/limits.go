package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Bounds of what is parsed. Without them, goldmark's time and memory grow with the
// square of the text's size for some texts: it looks back at each open block for each
// line, and at each delimiter for each other one.
const (
	maxDepth    = 32   // containers around a block: quotes, lists and their items
	maxEmphasis = 1000 // runs of *, _ or ~ in a paragraph
	maxLinks    = 500  // brackets in a paragraph
)

// boundedQuote parses quotes, except for those that are nested too deeply.
type boundedQuote struct{ parser.BlockParser }

func (p boundedQuote) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if above(parent) >= maxDepth {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

// boundedList parses lists, except for those that are nested too deeply. The inner
// parser is asked nevertheless, because it resets what it has noted for the next list.
type boundedList struct{ parser.BlockParser }

func (p boundedList) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	node, state := p.BlockParser.Open(parent, reader, pc)
	if above(parent) >= maxDepth {
		return nil, parser.NoChildren
	}
	return node, state
}

// above returns the number of nodes above a node.
func above(n ast.Node) (d int) {
	for n = n.Parent(); n != nil; n = n.Parent() {
		d++
	}
	return d
}

// countedParser is an inline parser that parses only so many things in a paragraph.
type countedParser struct {
	parser.InlineParser
	most  int
	count parser.ContextKey
}

// The keys of what is counted. They are made before any text is parsed: goldmark numbers
// keys without a lock, and a context has room for those only that there are by then.
var linksKey, emphasisKey, strikethroughKey = parser.NewContextKey(), parser.NewContextKey(), parser.NewContextKey()

func atMost(most int, count parser.ContextKey, p parser.InlineParser) parser.InlineParser {
	return countedParser{p, most, count}
}

func (p countedParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	n, _ := pc.Get(p.count).(int)
	if n >= p.most {
		return nil
	}
	pc.Set(p.count, n+1)
	return p.InlineParser.Parse(parent, block, pc)
}

// CloseBlock is called at the end of each paragraph.
func (p countedParser) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	pc.Set(p.count, 0)
	if inner, ok := p.InlineParser.(parser.CloseBlocker); ok {
		inner.CloseBlock(parent, block, pc)
	}
}

// boundedTables makes tables of paragraphs, unless a table would have more cells than
// the paragraph has bytes: rows are filled up to the number of columns, so a long
// first row and many short ones would make a huge table.
type boundedTables struct{ parser.ParagraphTransformer }

func (t boundedTables) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	lines, size, columns := node.Lines(), 0, 0
	for i := range lines.Len() {
		line := lines.At(i)
		source := line.Value(reader.Source())
		size += len(source)
		if len(bytes.Trim(source, "-:| \t\r\n")) == 0 {
			columns = max(columns, bytes.Count(source, []byte{'|'})+1)
		}
	}
	if columns > 0 && columns*lines.Len() <= size {
		t.ParagraphTransformer.Transform(node, reader, pc)
	}
}

// escapedPipes removes the backslash of "\|" from code in tables. It does what the
// transformer of goldmark does, in linear time.
type escapedPipes struct{}

var _ parser.ASTTransformer = escapedPipes{}

func (escapedPipes) Transform(document *ast.Document, reader text.Reader, _ parser.Context) {
	var code []ast.Node
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && n.Kind() == ast.KindCodeSpan && inCell(n) {
			code = append(code, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range code {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				splitAtPipe(n, t, reader.Source())
			}
		}
	}
}

// splitAtPipe splits a text in two before and after the backslash of its first "\|".
func splitAtPipe(parent ast.Node, t *ast.Text, source []byte) {
	i := bytes.Index(t.Segment.Value(source), []byte(`\|`))
	if i < 0 {
		return
	}
	at := t.Segment.Start + i
	rest := ast.NewRawTextSegment(t.Segment.WithStart(at + 1))
	parent.InsertAfter(parent, t, rest)
	t.Segment = t.Segment.WithStop(at)
}

func inCell(n ast.Node) bool {
	for ; n != nil; n = n.Parent() {
		if n.Kind() == extast.KindTableCell {
			return true
		}
	}
	return false
}
