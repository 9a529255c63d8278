package terminal

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/markdown"
	"github.com/x/pygent/internal/markdown/ansimark"
)

// stream is what the model writes in a step. Blocks, such as paragraphs and fenced
// code, are printed when they are finished; the last one is live.
type stream struct {
	text     []byte // all of the answer
	done     int    // how much of it is printed
	splitter markdown.Splitter
}

// open reports whether a block has begun and not ended.
func (t *stream) open() bool { return len(bytes.TrimSpace(t.text[t.done:])) > 0 }

// add takes a piece of the answer, and returns the blocks that it finishes.
func (t *stream) add(piece string) []string {
	t.text = append(t.text, piece...)
	return t.finish(t.splitter.Write(piece))
}

// end returns the last blocks, and forgets the answer.
func (t *stream) end() []string {
	blocks := t.finish(t.splitter.Close())
	*t = stream{}
	return blocks
}

func (t *stream) finish(blocks []string) (finished []string) {
	for _, block := range blocks {
		t.done += len(block)
		if block = strings.TrimRight(strings.Trim(block, "\n"), " \n"); block != "" {
			finished = append(finished, block)
		}
	}
	return finished
}

// withdraw forgets the answer, and reports whether a part of it is printed.
func (t *stream) withdraw() (printed bool) {
	printed = t.done > 0
	t.end()
	return printed
}

// takesUp has the answer begin with a text that is printed already.
func (t *stream) takesUp(printed string) {
	t.end()
	t.text, t.done = []byte(printed), len(printed)
}

// rows shows the end of the block that is open, in at most so many rows.
func (t *stream) rows(s *session, width, most int) (rows []string) {
	if most <= 0 || !t.open() {
		return nil
	}
	text := bytes.Trim(t.text[t.done:], "\n") // not a copy: the block may be long
	if len(text) <= renderedLive {
		for line := range strings.SplitSeq(s.rendered(string(text)), "\n") {
			rows = append(rows, livearea.Wrap(strings.ReplaceAll(line, "\t", "    "), width)...)
		}
		return last(rows, most)
	}
	for most > len(rows) && len(text) > 0 { // from the last line on, since only the end is seen
		at := bytes.LastIndexByte(text, '\n') + 1
		line := end(string(text[max(at, len(text)-maxTail-utf8.UTFMax):]), maxTail)
		rows = append(livearea.Wrap(barred(strings.ReplaceAll(visible(line), "\t", "    ")), width), rows...)
		text = text[:max(at-1, 0)]
	}
	return last(rows, most)
}

// renderedLive is how long an open block may be to be rendered in each frame, in
// bytes. Of a longer one, the end is shown as it is written.
const renderedLive = 4 << 10

// streamText shows a piece of the model's answer.
func (s *session) streamText(piece string) {
	for _, block := range s.text.add(piece) {
		s.sayBlock(block)
	}
}

// answered ends an answer, of which pieces may have been lost.
func (s *session) answered(whole string) {
	streamed := string(s.text.text)
	switch printed := streamed[:s.text.done]; {
	case strings.HasPrefix(whole, streamed):
		s.streamText(whole[len(streamed):])
	case strings.HasPrefix(whole, printed):
		s.text.takesUp(printed)
		s.streamText(whole[len(printed):])
	default:
		s.text.end()
		s.say(kindNews, s.theme.warn("! parts of the answer above were lost; here is all of it:"))
		s.streamText(whole)
	}
	s.finishText()
}

// finishText prints what the model has written of its last block.
func (s *session) finishText() {
	for _, block := range s.text.end() {
		s.sayBlock(block)
	}
	s.flushNews()
}

func (s *session) sayBlock(block string) {
	s.say(kindText, s.rendered(block))
	s.flushNews()
}

// rendered is Markdown as it is printed. Code and what is copied keep their lines, but
// for the bar before a line that pretends to be of the session.
func (s *session) rendered(text string) string {
	width, _ := s.display.area.Size()
	render := func(width int) string {
		return strings.TrimRight(ansimark.Render(text, ansimark.Options{Width: width, Colours: !s.theme.colourless}), "\n")
	}
	plain := render(width)
	if barred := barred(plain); barred == plain {
		return plain
	}
	return barred(render(width - livearea.Width(othersBar)))
}
