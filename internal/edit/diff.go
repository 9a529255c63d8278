package edit

import (
	"fmt"
	"math"
	"strings"

	"github.com/x/pygent/internal/cut"
)

// Bounds of a difference that is shown.
const (
	diffLines   = 400 // lines that are compared with each other
	shownDiff   = 40  // lines that are shown
	diffContext = 2
)

// Diff shows how one text becomes another, for people: lines with "-" are removed,
// lines with "+" are new, and each piece begins with the number of its line. Both
// texts begin with a line. What is long is cut.
func Diff(before, after string, line int) string { return diff(before, after, line, shownDiff) }

// WholeDiff is [Diff] with all lines that change, as they are.
func WholeDiff(before, after string, line int) string {
	return diff(before, after, line, math.MaxInt)
}

// diff shows at most so many lines. If they are not all, long ones are cut.
func diff(before, after string, line, most int) string {
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
		return ""
	}
	d := differ{line: max(line, 1), most: most}
	d.context(a, head-diffContext, head)
	d.changed(a[head:len(a)-tail], b[head:len(b)-tail])
	d.context(a, len(a)-tail, len(a)-tail+diffContext)
	return d.text(head)
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
		switch row[0] {
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
	line int
	most int // lines that are shown
	rows []string
}

func (d *differ) add(sign, line string) {
	if d.most <= shownDiff {
		line = cut.Head(line, lineBytes)
	}
	d.rows = append(d.rows, sign+line)
}

func (d *differ) context(lines []string, from, to int) {
	for _, l := range lines[max(from, 0):min(max(to, 0), len(lines))] {
		d.add("  ", l)
	}
}

// changed compares the lines between the equal ones at both ends. Of many, it does
// not look for equal ones among them.
func (d *differ) changed(a, b []string) {
	if len(a) > diffLines || len(b) > diffLines {
		for _, l := range a[:min(len(a), d.most)] {
			d.add("- ", l)
		}
		for _, l := range b[:min(len(b), d.most)] {
			d.add("+ ", l)
		}
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
			d.add("  ", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			d.add("- ", a[i])
			i++
		default:
			d.add("+ ", b[j])
			j++
		}
	}
}

// text returns the rows, with long runs of equal lines and what is too long left
// out. equal is how many equal lines come before the change.
func (d *differ) text(equal int) string {
	var out []string
	rows := d.rows
	for i, row := range rows {
		if strings.HasPrefix(row, "  ") && !d.near(i) {
			if len(out) > 0 && out[len(out)-1] != "…" {
				out = append(out, "…")
			}
			continue
		}
		if len(out) >= d.most {
			out = append(out, fmt.Sprintf("… (%d more lines)", len(rows)-i))
			break
		}
		out = append(out, row)
	}
	return fmt.Sprintf("@@ line %d @@\n%s", d.line+max(equal-diffContext, 0), strings.Join(out, "\n"))
}

// near reports whether a row stands close to one that changes.
func (d *differ) near(at int) bool {
	for i := max(at-diffContext, 0); i <= min(at+diffContext, len(d.rows)-1); i++ {
		if !strings.HasPrefix(d.rows[i], "  ") {
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
