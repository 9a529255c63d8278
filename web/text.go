package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/htmlmark"
	"github.com/x/pygent/internal/screen"
)

// esc writes a text that is none of our own as HTML.
func esc(s string) string { return htmlmark.Text(s) }

// exact is esc for what a person has to judge: nothing in it is hidden.
func exact(s string) string { return htmlmark.Exact(s) }

// oneLine returns a text with visible control characters in one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(screen.Visible(s))
}

// seconds writes a duration for people.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}
