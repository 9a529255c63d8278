package terminal

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// theme has the styles of a session. They use the terminal's own colours, and of
// those the ones that are read on a light and on a dark background, as package
// ansimark does: a warning is not yellow. The text must be visible already: see
// [visible].
type theme struct{ colourless bool }

func newTheme() theme { return theme{colourless: os.Getenv("NO_COLOR") != ""} }

func (t theme) dim(text string) string    { return style("2", text) }
func (t theme) bold(text string) string   { return style("1", text) }
func (t theme) accent(text string) string { return t.colour("36", text) }
func (t theme) good(text string) string   { return t.colour("32", text) }
func (t theme) bad(text string) string    { return t.colour("31", text) }
func (t theme) warn(text string) string   { return t.colour("1;35", text) }

func (t theme) colour(code, text string) string {
	if t.colourless {
		return text
	}
	return style(code, text)
}

// style sets a style for each line of a text.
func style(code, text string) string {
	if text == "" {
		return ""
	}
	begin, end := "\x1b["+code+"m", "\x1b[m"
	return begin + strings.ReplaceAll(text, "\n", end+"\n"+begin) + end
}

// visible makes the control characters of a text visible.
func visible(text string) string { return screen.Visible(text) }

// maxLine is the longest line that is made of a text of others, in bytes.
const maxLine = 1 << 10

// oneLine returns a text of others in a line, with control characters visible.
func oneLine(text string) string { return faces.OneLine(text) }

// wholeSeconds is [numeral.Took] for a clock that is seen to tick.
func wholeSeconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return numeral.Took(d)
}
