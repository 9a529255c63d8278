package edit

import (
	"fmt"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

// Bounds of a difference that is shown.
const (
	diffLines   = 400 // lines that are compared with each other
	shownDiff   = 40  // lines that are shown
	diffContext = 2
)

// Row is a line of a difference, or stands for equal lines that are left out.
type Row struct {
	Sign byte // '-' for a line that is removed, '+' for a new one, ' ' for one that stays; 0 for those left out
	Text string
	Line int // the number of the line: before the change if it is removed, else after it
	Left int // how many lines are left out
}

// Rows returns how one text becomes another: the lines that differ, whole, and some
// around them. Both texts begin with a line. There are none if only the ends of lines
// differ.
func Rows(before, after string, line int) []Row {
	a, b := splitLines(before), splitLines(after)
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return nil
	}
	begin := max(head-diffContext, 0)
	d := differ{before: max(line, 1) + begin, after: max(line, 1) + begin}
	d.add(' ', a[begin:head]...)
	d.changed(a[head:len(a)-tail], b[head:len(b)-tail])
	d.add(' ', a[len(a)-tail:min(len(a)-tail+diffContext, len(a))]...)
	return d.shown()
}

// Diff is [Rows] as a text for people: lines with "-" are removed, lines with "+" are
// new, and the first line is the number of the second. What is long is cut, and says
// so.
func Diff(before, after string, line int) string {
	rows := Rows(before, after, line)
	if len(rows) == 0 {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "@@ line %d @@", rows[0].Line)
	for i, row := range rows {
		if i == shownDiff {
			text.WriteString("\n… (" + numeral.Count(lines(rows[i:]), "more line") + ")")
			break
		}
		text.WriteString("\n" + row.String())
	}
	return text.String()
}

// String is the row as a line of [Diff].
func (r Row) String() string {
	if r.Sign == 0 {
		return "…"
	}
	text := cut.Head(r.Text, lineBytes)
	if n := len(r.Text) - len(text); n > 0 {
		text += " … (" + numeral.Count(n, "more byte") + ")"
	}
	return string(r.Sign) + " " + text
}

// lines counts the lines of rows.
func lines(rows []Row) (n int) {
	for _, row := range rows {
		n += max(row.Left, 1)
	}
	return n
}

// Count counts the lines that are new in a text and those that are removed from
// it, as [Diff] compares them.
func Count(before, after string) (added, removed int) {
	a, b := splitLines(before), splitLines(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) > diffLines || len(b) > diffLines {
		return len(b), len(a)
	}
	d := differ{}
	d.changed(a, b)
	for _, row := range d.rows {
		switch row.Sign {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}

// differ collects the lines of a difference.
type differ struct {
	rows          []Row
	before, after int // the numbers of the next line
}

func (d *differ) add(sign byte, lines ...string) {
	for _, line := range lines {
		row := Row{Sign: sign, Text: line, Line: d.after}
		if sign == '-' {
			row.Line = d.before
		}
		if sign != '+' {
			d.before++
		}
		if sign != '-' {
			d.after++
		}
		d.rows = append(d.rows, row)
	}
}

// changed compares the lines between the equal ones at both ends. Of many, it does
// not look for equal ones among them.
func (d *differ) changed(a, b []string) {
	if len(a) > diffLines || len(b) > diffLines {
		d.add('-', a...)
		d.add('+', b...)
		return
	}
	// common[i][j] is how many lines of a[i:] and b[j:] are the same, in order.
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			d.add(' ', a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			d.add('-', a[i])
			i++
		default:
			d.add('+', b[j])
			j++
		}
	}
}

// shown returns the rows, with one for each long run of equal lines.
func (d *differ) shown() (rows []Row) {
	for i, row := range d.rows {
		last := len(rows) - 1
		switch {
		case row.Sign != ' ' || d.near(i):
			rows = append(rows, row)
		case rows[last].Sign == 0: // the first row is near to one that changes
			rows[last].Left++
		default:
			rows = append(rows, Row{Left: 1})
		}
	}
	return rows
}

// near reports whether a row stands close to one that changes.
func (d *differ) near(at int) bool {
	for i := max(at-diffContext, 0); i <= min(at+diffContext, len(d.rows)-1); i++ {
		if d.rows[i].Sign != ' ' {
			return true
		}
	}
	return false
}

// splitLines returns the lines of a text without their ends.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}
