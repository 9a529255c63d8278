package terminal

import (
	"regexp"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/livearea"
)

// help lists the commands or, with a name, explains a command.
func (s *session) help(name string) string {
	var all []pygent.Command
	for _, c := range s.agent.Commands() {
		if name == "" || c.Name == name {
			all = append(all, c)
		}
	}
	rows := s.commandList(all)
	if name != "" {
		if len(all) == 1 && all[0].Help != "" {
			rows = append(rows, s.folded("  ", visible(all[0].Help), "  ")...)
		}
		return strings.Join(rows, "\n")
	}
	rows = append(append(rows, ""), s.folded("  ", "A message that is only a question mark lists the keys.", "  ")...)
	return strings.Join(rows, "\n")
}

// widestLabel is the widest label beside which its summary is shown, in columns.
const widestLabel = 24

// commandList lists commands with their summaries beside them or, in a narrow
// terminal, below.
func (s *session) commandList(all []pygent.Command) (rows []string) {
	width, _ := s.display.area.Size()
	column := 0
	for _, c := range all {
		if w := livearea.Width(label(c)); w <= widestLabel {
			column = max(column, w)
		}
	}
	column += len("  " + "  ")
	for _, c := range all {
		head := "  " + s.theme.bold("/"+oneLine(c.Name))
		if c.Usage != "" {
			head += " " + s.theme.dim(oneLine(c.Usage))
		}
		summary := oneLine(c.Summary)
		const leastSummary = 30
		indent := strings.Repeat(" ", column)
		if width-column < leastSummary {
			indent = "      "
			rows = append(rows, head)
			head = indent
		} else if w := livearea.Width(head) + len("  "); w <= column {
			head += strings.Repeat(" ", column-w+len("  "))
		} else {
			rows = append(rows, head)
			head = indent
		}
		rows = append(rows, s.folded(head, summary, indent)...)
	}
	return rows
}

func label(c pygent.Command) string {
	return strings.TrimSpace("/" + oneLine(c.Name) + " " + oneLine(c.Usage))
}

// folded breaks a text into rows that fit into the terminal, of which the first
// begins with head and the others with indent.
func (s *session) folded(head, text, indent string) (rows []string) {
	width, _ := s.display.area.Size()
	for line := range strings.SplitSeq(text, "\n") {
		for _, row := range livearea.Wrap(line, max(width-livearea.Width(indent)-1, leastColumn)) {
			rows = append(rows, strings.TrimRight(head+strings.TrimLeft(row, " "), " "))
			head = indent
		}
	}
	return rows
}

// leastColumn is how narrow the last column of a table may get.
const leastColumn = 16

// columns finds what separates the columns of a table.
var columns = regexp.MustCompile(`\S {2,}`)

// tableLine is a line of a table. What does not fit goes on below its last column or,
// if that is too far to the right, below its beginning.
func (s *session) tableLine(line string) string {
	width, _ := s.display.area.Size()
	if livearea.Width(line) <= width {
		return line
	}
	at := len(line) - len(strings.TrimLeft(line, " "))
	if places := columns.FindAllStringIndex(line, -1); len(places) > 0 {
		at = places[len(places)-1][1]
	}
	head, text := line[:at], line[at:]
	if w := livearea.Width(head); width-w-1 >= leastColumn*3/2 {
		return strings.Join(s.folded(head, text, strings.Repeat(" ", w)), "\n")
	}
	const indent = "    "
	rows := []string{strings.TrimRight(head, " ")}
	return strings.Join(append(rows, s.folded(indent, text, indent)...), "\n")
}
