// Package livearea keeps a few rows at the end of a terminal's text that change in
// place. Text that is finished is printed above them and scrolls away like the
// output of any program: the terminal wraps it, keeps it in its scrollback, and
// gives it back as it was when it is copied. Nothing above the rows is ever drawn
// again.
//
// An [Area] only makes the bytes that a terminal has to get; whoever has the
// terminal writes them. It moves the cursor relatively to where it is, and no row
// is wider than the terminal, so that it always knows how many rows it has. The
// exception is a terminal that was resized and wraps the rows by itself: see
// [Area.Resize]. Rows that it gets only after that are wrapped likewise. Where it may
// have cut one instead, that counts as one row: a copy of it may stay, but nothing
// above is erased.
package livearea

import (
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The control sequences of an area, besides the styles in the texts.
const (
	beginSync  = "\x1b[?2026h" // the terminal shows what follows at once,
	endSync    = "\x1b[?2026l" // up to here, if it knows this
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	eraseBelow = "\x1b[J" // and the rest of the row
	eraseRow   = "\x1b[K" // from the cursor on
	noStyle    = "\x1b[m"
	newRow     = "\r\n"
)

// View is what an area shows.
type View struct {
	Rows []string // in the forms that [Clean] returns; what does not fit into a row is cut
	Row  int      // the row with the cursor, from 0
	Col  int      // the cursor's column, from 0, but not after the end of the row
	// NoCursor hides the cursor.
	NoCursor bool
}

// Area is the live area of a terminal. The zero value is not ready: see [New]. It
// is not safe for concurrent use.
type Area struct {
	width, height int
	keepsCursor   bool // the row with the cursor does not wrap when the terminal is resized
	keepsRows     bool // no row does

	shown View // as it was drawn, with the cursor where it is
	above int  // how many rows of the terminal are above the cursor's
	stale bool // the terminal may have changed what is shown

	late bool // the terminal may have had another size when it got it: see MayBeLate

	drawnWidth, drawnHeight int // the terminal's size when it was drawn
	leastHeight             int // since then
}

// Option says how a terminal behaves.
type Option func(*Area)

// KeepsCursorRow is for terminals that wrap all rows but the cursor's when they
// become narrower: those made of xterm.js.
func KeepsCursorRow(a *Area) { a.keepsCursor = true }

// KeepsRows is for terminals that cut rows when they become narrower: xterm, the
// console of Linux, and GNU screen.
func KeepsRows(a *Area) { a.keepsRows = true }

// New returns the area of a terminal of a size, whose cursor is in an empty row.
func New(width, height int, opts ...Option) *Area {
	a := &Area{shown: View{Rows: []string{""}}}
	for _, o := range opts {
		o(a)
	}
	a.Resize(width, height)
	return a
}

// Size returns the columns and rows of the terminal.
func (a *Area) Size() (width, height int) { return a.width, a.height }

// Resize notes that the terminal has another size. Rows that are wider than the
// terminal now were wrapped by it, so there are more of them.
func (a *Area) Resize(width, height int) {
	width, height = max(width, 1), max(height, 1)
	if width == a.width && height == a.height {
		return
	}
	a.width, a.height, a.stale = width, height, true
	a.leastHeight = min(a.leastHeight, height)
	a.above = a.shown.Row
	if a.keepsRows {
		return
	}
	a.above = 0
	for i := range a.shown.Row {
		a.above += a.taken(i)
	}
	if a.keepsCursor {
		a.above += a.pushed()
		return
	}
	_, at := wrapped(a.shown.Rows[a.shown.Row], a.shown.Col, width)
	if a.late {
		at = min(at, a.taken(a.shown.Row)-1)
	}
	a.above += at
}

// taken returns how many rows a row that is shown takes at least in a terminal that
// has wrapped it, or got it when it had this width already. Both make as many of a row
// that may wrap; one that may not is cut in the second case.
func (a *Area) taken(row int) int {
	if a.late && !a.mayWrap(a.shown, row, a.drawnWidth) {
		return 1
	}
	n, _ := wrapped(a.shown.Rows[row], 0, a.width)
	return n
}

// pushed returns by how many rows a terminal that does not wrap the cursor's row
// moves the cursor down in the text, which xterm.js does for all rows that it adds,
// even for those below the cursor. Before that, a lower window has lost its last
// rows; of those it is not known whether something was in them, and taking too few
// rows for the area's leaves a copy of them, while taking too many would erase what
// is above.
func (a *Area) pushed() (rows int) {
	end := len(a.shown.Rows) - (a.drawnHeight - a.leastHeight)
	for i := a.shown.Row + 1; i < end; i++ {
		rows += a.taken(i) - 1
	}
	return rows
}

// MayBeLate notes that the terminal may have got what Draw returned last when it had the
// size already that Resize is about to tell of, so that the rows may be for another one.
func (a *Area) MayBeLate() { a.late = true }

// Redraw has the next Draw draw all rows again, because something else may have
// written to the terminal.
func (a *Area) Redraw() { a.stale = true }

// Draw returns what to write to the terminal to print finished text and then show
// v; nothing if that is shown already. Finished text ends with a line end, or gets
// one. It has the forms that [Clean] returns, too.
func (a *Area) Draw(finished string, v View) string {
	v = a.fit(v)
	if finished == "" && !a.stale && sameView(v, a.shown) {
		return ""
	}
	var b strings.Builder
	b.WriteString(beginSync + hideCursor)
	a.toTop(&b)
	if finished == "" && !a.stale {
		a.change(&b, v)
	} else {
		b.WriteString(noStyle + eraseBelow)
		if finished != "" {
			b.WriteString(strings.ReplaceAll(strings.TrimSuffix(finished, "\n"), "\n", newRow))
			b.WriteString(noStyle + newRow)
		}
		for i := range v.Rows {
			if i > 0 {
				b.WriteString(newRow)
			}
			a.write(&b, v, i)
		}
	}
	moveUp(&b, len(v.Rows)-1-v.Row)
	b.WriteString("\r")
	moveRight(&b, v.Col)
	if !v.NoCursor {
		b.WriteString(showCursor)
	}
	b.WriteString(endSync)
	a.shown, a.above, a.stale, a.late = v, v.Row, false, false
	a.drawnWidth, a.drawnHeight, a.leastHeight = a.width, a.height, a.height
	return b.String()
}

// Remove returns what to write to the terminal to print finished text and take the
// area away. The cursor is in an empty row then.
func (a *Area) Remove(finished string) string {
	out := a.Draw(finished, View{})
	if out == "" {
		out = showCursor
	}
	return out
}

// change draws the rows that differ from those that are shown, from the first row
// on, and leaves the cursor in the last one. Where the cursor has moved, it draws all
// that it has passed: in a terminal that has wrapped them, it passes only a part.
func (a *Area) change(b *strings.Builder, v View) {
	last := len(v.Rows) - 1
	moved := v.Row != a.shown.Row || v.Col != a.shown.Col
	for i, row := range v.Rows {
		switch {
		case i == last && len(v.Rows) < len(a.shown.Rows):
			b.WriteString(eraseBelow)
			a.write(b, v, i)
		case i >= len(a.shown.Rows):
			a.write(b, v, i)
		case row != a.shown.Rows[i] || moved && i >= a.shown.Row || a.mayWrap(v, i, a.width) != a.mayWrap(a.shown, i, a.width):
			b.WriteString(eraseRow)
			a.write(b, v, i)
		}
		if i < last {
			b.WriteString(newRow)
		}
	}
}

// write writes a row, which the terminal cuts or wraps if it is narrower than is known.
func (a *Area) write(b *strings.Builder, v View, row int) {
	if a.mayWrap(v, row, a.width) {
		b.WriteString(v.Rows[row] + noStyle)
		return
	}
	b.WriteString(wrapOff + v.Rows[row] + noStyle + wrapOn)
}

// mayWrap reports whether a row of a view is written so that it takes as many rows of a
// terminal that has become narrower before it got the row as of one that becomes narrower
// afterwards. A row that would be wider than the terminal if some of its characters were
// wider than is known here is not, because it has to take one row.
func (a *Area) mayWrap(v View, row, width int) bool {
	return !a.keepsRows && !(a.keepsCursor && row == v.Row) && widest(v.Rows[row]) <= width
}

// toTop moves the cursor to the beginning of the first row.
func (a *Area) toTop(b *strings.Builder) {
	b.WriteString("\r")
	moveUp(b, a.above)
}

// fit returns a view whose rows fit into the terminal, and of which a row of the
// terminal is left above. Of too many rows it keeps those around the cursor.
func (a *Area) fit(v View) View {
	rows := slices.Clone(v.Rows)
	if len(rows) == 0 {
		rows = []string{""}
	}
	v.Row = min(max(v.Row, 0), len(rows)-1)
	if most := max(a.height-1, 1); len(rows) > most {
		from := min(max(v.Row-most+1, 0), len(rows)-most)
		if v.Row == len(v.Rows)-1 || v.Row >= len(rows)-most {
			from = len(rows) - most // the end matters more
		}
		rows, v.Row = rows[from:from+most], v.Row-from
	}
	v.Col = min(max(v.Col, 0), a.width-1, Width(rows[v.Row]))
	for i, row := range rows {
		// Terminals do not agree on whether blanks at the end are wrapped.
		row = withoutBlanks(Cut(strings.ReplaceAll(row, "\t", "    "), a.width))
		if i == v.Row {
			row += strings.Repeat(" ", max(v.Col-Width(row), 0))
		}
		rows[i] = row
	}
	v.Rows = rows
	return v
}

func sameView(v, w View) bool {
	return v.Row == w.Row && v.Col == w.Col && v.NoCursor == w.NoCursor && slices.Equal(v.Rows, w.Rows)
}

func moveUp(b *strings.Builder, n int) {
	if n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n) + "A")
	}
}

func moveRight(b *strings.Builder, n int) {
	if n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n) + "C")
	}
}

// wrapped returns how many rows a terminal with so many columns makes of a row,
// and in which of them a column of it is then.
func wrapped(row string, col, columns int) (rows, at int) {
	var state byte
	x, seen := 0, 0
	at = -1
	for row != "" {
		_, width, n, next := ansi.DecodeSequence(row, state, nil)
		row, state = row[n:], next
		if x+width > columns {
			rows, x = rows+1, 0
		}
		if at < 0 && col < seen+width {
			at = rows
		}
		x, seen = x+width, seen+width
	}
	if at < 0 {
		at = rows + (x+col-seen)/columns
	}
	return rows + 1, at
}
