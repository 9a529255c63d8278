package markdown

import (
	"bytes"
	"slices"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

// Splitter splits a Markdown text that arrives in pieces into blocks: a block is a
// paragraph, a heading, a whole list, a quote, a table, a fence, or the like, with the
// blank lines before it, and with one after it where that ends it. A block that was
// returned never changes.
//
// The blocks joined are the text, byte for byte. Where they are split depends on the
// text alone and not on its pieces. Each block parsed by itself by [Parse] is what it
// is in the whole text. The time is linear in the size of the text, and the memory in
// the size of the open block.
//
// The zero value is ready for use. While a block is open, a Splitter has a coroutine,
// which ends with [Splitter.Close]. It is not safe for concurrent use.
type Splitter struct {
	text  []byte // what has not been returned
	begin int    // where the first line begins that the parser has not seen
	seen  int    // up to where the end of that line was looked for

	parser *lineParser // of the open block; nil if none is open
	top    ast.Node    // the open block
	blank  bool        // whether the line before begin is blank
	lost   bool        // whether goldmark has given up; then the block stays open to the end
}

// Write takes the next piece of the text, and returns the blocks that are finished
// now. A piece may end anywhere, also within a character.
func (s *Splitter) Write(piece string) (blocks []string) {
	s.text = append(s.text, piece...)
	for {
		n := bytes.IndexByte(s.text[s.seen:], '\n')
		if n < 0 {
			break
		}
		line := s.text[s.begin : s.seen+n+1]
		before, after := s.line(line)
		if before {
			blocks = append(blocks, s.cut())
		}
		s.begin += len(line)
		s.seen = s.begin
		if after {
			s.end()
			blocks = append(blocks, s.cut())
		}
	}
	s.seen = len(s.text)
	if s.endsBefore(s.text[s.begin:]) {
		s.end()
		blocks = append(blocks, s.cut())
	}
	return blocks
}

// Open returns what is not in a block yet that was returned: the open block, and the
// blank lines before it.
func (s *Splitter) Open() string { return string(s.text) }

// Close returns what is left at the end of the text: the open block, or two if the
// last line begins another one. The Splitter is ready for another text then.
func (s *Splitter) Close() (blocks []string) {
	if last := s.text[s.begin:]; len(last) > 0 {
		if before, _ := s.line(append(slices.Clip(last), '\n')); before {
			blocks = append(blocks, s.cut())
		}
	}
	if len(s.text) > 0 {
		blocks = append(blocks, string(s.text))
	}
	s.end()
	*s = Splitter{}
	return blocks
}

// line parses the next line. It reports whether the open block has ended before this
// line, and whether none is open after it.
func (s *Splitter) line(line []byte) (before, after bool) {
	blank := util.IsBlank(line)
	again := blank && s.blank
	s.blank = blank
	switch {
	case s.lost:
		return false, false
	case s.parser == nil && blank:
		return false, false // It belongs to the next block.
	case again:
		return false, false // A second blank line never changes which blocks are open.
	}
	was := s.top
	s.parse(line)
	if was != nil && s.top != nil && was != s.top && !underlines(was, s.top, line) {
		s.end()
		s.parse(line)
		before = true
	}
	after = !s.lost && (s.top == nil || s.top.Kind() == ast.KindHeading || s.top.Kind() == ast.KindThematicBreak)
	return before, after
}

// parse passes a line to the parser of the open block, or to a new one.
func (s *Splitter) parse(line []byte) {
	if s.parser == nil {
		s.parser = newLineParser()
	}
	top, ok := s.parser.parse(line)
	s.top, s.lost = top, !ok
}

// underlines reports whether a line makes a heading of the paragraph above it.
func underlines(was, top ast.Node, line []byte) bool {
	return was.Kind() == ast.KindParagraph && top.Kind() == ast.KindHeading &&
		!bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte{'#'})
}

// endsBefore reports whether the open block is known to end before a line of which
// only the beginning is there. It knows this only of lists, because what follows them
// is often a paragraph in one long line. After a blank line, what is neither indented
// nor looks like an item is outside of the list.
func (s *Splitter) endsBefore(beginning []byte) bool {
	return s.top != nil && s.top.Kind() == ast.KindList && s.blank &&
		len(beginning) > 0 && !bytes.ContainsRune([]byte(" \t\r\v\f-+*0123456789"), rune(beginning[0]))
}

// cut removes the lines before begin from the text, and returns them.
func (s *Splitter) cut() string {
	block := string(s.text[:s.begin])
	s.text = s.text[s.begin:]
	s.seen -= s.begin
	s.begin = 0
	return block
}

// end ends the parser of the open block.
func (s *Splitter) end() {
	if s.parser != nil {
		s.parser.stop()
	}
	s.parser, s.top = nil, nil
}
