package ansimark

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// cell is a cell of a table.
type cell struct {
	spans []span
	width int
}

// table writes a table with aligned columns if it fits, and row by row otherwise.
func (r *renderer) table(n *extast.Table) {
	var rows [][]cell
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		rows = append(rows, r.row(row, row.Kind() == extast.KindTableHeader))
	}
	if len(rows) == 0 {
		return
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row[:min(len(row), len(widths))] {
			widths[i] = max(widths[i], c.width)
		}
	}
	total := 3 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if total <= r.room() {
		r.aligned(rows, widths, n.Alignments)
	} else {
		r.rowByRow(rows)
	}
}

// row returns the cells of a row, each in one line.
func (r *renderer) row(row ast.Node, header bool) (cells []cell) {
	for c := row.FirstChild(); c != nil; c = c.NextSibling() {
		spans := r.inline(c, style{bold: header})
		if c == row.LastChild() {
			spans = append(spans, r.surplus(c)...)
		}
		var joined []span
		for _, line := range wrap(spans, 1<<30, 0) {
			joined = append(joined, line...)
		}
		cells = append(cells, cell{joined, width(joined)})
	}
	return cells
}

// surplus returns what a row has after its last cell, which is not a cell because the
// table has no column for it. Often it is code with a pipe that is not escaped.
func (r *renderer) surplus(last ast.Node) []span {
	if last.Lines().Len() == 0 {
		return nil
	}
	rest, _, _ := bytes.Cut(r.source[last.Lines().At(0).Stop:], []byte{'\n'})
	if len(bytes.Trim(rest, "| \t\r")) == 0 {
		return nil
	}
	return []span{{text: " " + oneLine(string(bytes.TrimRight(rest, "| \t\r")))}}
}

// aligned writes the rows of a table below each other.
func (r *renderer) aligned(rows [][]cell, widths []int, alignments []extast.Alignment) {
	bar := span{text: " │ ", style: style{role: roleMuted}}
	for i, row := range rows {
		var line []span
		for j, c := range row {
			if j > 0 {
				line = append(line, bar)
			}
			before, after := pad(widths[j]-c.width, alignments[j])
			line = append(line, span{text: before})
			line = append(line, c.spans...)
			line = append(line, span{text: after})
		}
		r.line(trimRight(line)...)
		if i == 0 {
			rules := make([]string, len(widths))
			for j, w := range widths {
				rules[j] = strings.Repeat("─", w)
			}
			r.line(span{text: strings.Join(rules, "─┼─"), style: style{role: roleMuted}})
		}
	}
}

// pad returns the spaces before and after a cell.
func pad(n int, a extast.Alignment) (before, after string) {
	left := 0
	switch a {
	case extast.AlignRight:
		left = n
	case extast.AlignCenter:
		left = n / 2
	}
	return strings.Repeat(" ", left), strings.Repeat(" ", n-left)
}

// rowByRow writes each row of a table as lines "column: value".
func (r *renderer) rowByRow(rows [][]cell) {
	titles := rows[0]
	if len(rows) == 1 {
		rows = [][]cell{make([]cell, len(titles))}
	} else {
		rows = rows[1:]
	}
	for i, row := range rows {
		if i > 0 {
			r.line()
		}
		for j, c := range row {
			var line []span
			if j < len(titles) && titles[j].width > 0 {
				line = append(append(line, titles[j].spans...), span{text: ": ", style: style{bold: true}})
			}
			if line = append(line, c.spans...); width(line) == 0 {
				continue
			}
			r.nest(span{}, span{text: "  "}, func() { r.prose(line) })
		}
	}
}
