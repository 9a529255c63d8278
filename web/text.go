package web

import (
	"strings"

	"github.com/x/pygent/internal/markdown/htmlmark"
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
