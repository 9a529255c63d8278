package ansimark

import (
	"strings"

	"github.com/yuin/goldmark/text"
)

// code writes a code block: its language, and its lines as they are. Code is not
// indented with the list that it is in, so that copying it gives the code itself.
func (r *renderer) code(info string, segments *text.Segments) {
	if spell(r.first) != spell(r.rest) {
		r.line() // the mark of the item that begins with this code
		r.line()
	}
	info = strings.TrimSpace(oneLine(info))
	lines := r.lines(segments)
	fence := ""
	if !r.options.Colours {
		fence = strings.Repeat("`", max(3, 1+longestRun(strings.Join(lines, "\n"), '`')))
	}
	if title := fence + info; title != "" || len(lines) == 0 {
		r.write(r.bars, []span{{text: title, style: style{role: roleMuted}}})
	}
	for _, line := range r.highlight(language(info), lines) {
		r.write(r.bars, r.expandTabs(line))
	}
	if fence != "" {
		r.write(r.bars, []span{{text: fence}})
	}
	r.first = r.rest
	r.loose = true
}

// expandTabs returns a line with spaces up to the next tab stop instead of each tab,
// if that is wanted.
func (r *renderer) expandTabs(line []span) []span {
	stop := r.options.Tab
	if stop <= 0 {
		return line
	}
	expanded := make([]span, 0, len(line))
	column := 0
	for _, s := range line {
		parts := strings.SplitAfter(s.text, "\t")
		for _, part := range parts {
			content, tab := strings.CutSuffix(part, "\t")
			column += columnsOf(content)
			if tab {
				spaces := stop - column%stop
				content += strings.Repeat(" ", spaces)
				column += spaces
			}
			expanded = append(expanded, span{text: content, style: s.style})
		}
	}
	return expanded
}

// language returns the language in the info string of a fence: "go" in "go title=x",
// "{.go}" and "go:main.go".
func language(info string) string {
	info = strings.TrimLeft(info, " \t{.")
	if i := strings.IndexAny(info, " \t,;:{}"); i >= 0 {
		info = info[:i]
	}
	return info
}
