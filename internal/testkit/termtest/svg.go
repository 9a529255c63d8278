package termtest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Line is a line as long as the program wrote it: rows that the terminal has
// wrapped are joined, as they are when a person copies them.
type Line struct {
	Text string `json:"text"`
	Runs []Run  `json:"runs"`
}

// Run is a piece of a line that looks the same.
type Run struct {
	Style string `json:"style"` // such as "fg=2 bold"; empty for plain text
	Text  string `json:"text"`
}

// Sizes of a picture, in pixels.
const (
	cellWidth  = 8.4
	lineHeight = 19
	fontSize   = 14
	margin     = 16
)

// palette are the sixteen colours of a terminal, for light and for dark pages.
var palette = [16][2]string{
	{"#1d1c1a", "#3a3a36"}, {"#b3261e", "#ff9087"}, {"#1b7038", "#74c78d"}, {"#7d5200", "#e3b355"},
	{"#1c56a8", "#8dbbf3"}, {"#8c3a96", "#d7a0e0"}, {"#0a6b5c", "#62c9b4"}, {"#5e5c55", "#c9c7be"},
	{"#87857c", "#8b897f"}, {"#b3261e", "#ff9087"}, {"#1b7038", "#74c78d"}, {"#7d5200", "#e3b355"},
	{"#1c56a8", "#8dbbf3"}, {"#8c3a96", "#d7a0e0"}, {"#0a6b5c", "#62c9b4"}, {"#1d1c1a", "#ecebe6"},
}

// SVG draws lines as a picture that fits light and dark pages. title is what it
// says to those who do not see it. Lines wider than cols are drawn in several
// rows.
func SVG(title string, cols int, lines []Line) string {
	var rows strings.Builder
	y := 0
	for _, line := range lines {
		y += drawLine(&rows, y, cols, line.Runs)
	}
	width, height := margin*2+float64(cols)*cellWidth, margin*2+y*lineHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 %.0f %d" width="%.0f" role="img" aria-label="%s">`+"\n", width, height, width, escaped(title))
	b.WriteString("<style>\ntext { font: " + fmt.Sprint(fontSize) + "px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #1d1c1a }\nrect { fill: #faf9f7 }\n")
	for i, color := range palette {
		fmt.Fprintf(&b, ".c%d { fill: %s }\n", i, color[0])
	}
	b.WriteString("@media (prefers-color-scheme: dark) {\ntext { fill: #ecebe6 }\nrect { fill: #171716 }\n")
	for i, color := range palette {
		fmt.Fprintf(&b, ".c%d { fill: %s }\n", i, color[1])
	}
	b.WriteString("}\n.bold { font-weight: 600 }\n.dim { opacity: .7 }\n.italic { font-style: italic }\n.underline { text-decoration: underline }\n.strike { text-decoration: line-through }\n</style>\n")
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8"/>`+"\n%s</svg>\n", rows.String())
	return b.String()
}

// drawLine draws a line from a row on, and returns how many rows it takes.
func drawLine(b *strings.Builder, row, cols int, runs []Run) int {
	first, x := row, 0
	for _, run := range runs {
		for rest := run.Text; rest != ""; {
			piece := ansi.Truncate(rest, cols-x, "")
			if piece == "" {
				row, x = row+1, 0
				continue
			}
			drawText(b, row, x, piece, run.Style)
			x += ansi.StringWidth(piece)
			rest = rest[len(piece):]
		}
	}
	return row - first + 1
}

func drawText(b *strings.Builder, row, x int, text, style string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	var classes []string
	fill := ""
	for word := range strings.FieldsSeq(style) {
		color, isColor := strings.CutPrefix(word, "fg=")
		var n int
		switch _, err := fmt.Sscan(color, &n); {
		case !isColor:
			if !strings.HasPrefix(word, "bg=") {
				classes = append(classes, word)
			}
		case strings.HasPrefix(color, "#"):
			fill = fmt.Sprintf(" style=\"fill: %s\"", color)
		case err == nil && n < len(palette):
			classes = append(classes, fmt.Sprintf("c%d", n))
		}
	}
	class := ""
	if len(classes) > 0 {
		class = fmt.Sprintf(" class=%q", strings.Join(classes, " "))
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\"%s%s>%s</text>\n",
		margin+float64(x)*cellWidth, margin+row*lineHeight+fontSize, float64(ansi.StringWidth(text))*cellWidth, class, fill, escaped(text))
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return cmp.Or(b.String(), " ")
}
