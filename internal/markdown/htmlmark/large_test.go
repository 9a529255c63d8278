//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package htmlmark_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/markdown/htmlmark"
)

// Bounds of what was rendered in time are those of the parser; see internal/markdown.
func TestHugeTextsAreRendered(t *testing.T) {
	for name, source := range map[string]string{
		"one block": "```\n" + strings.Repeat("<a>\n", 100_000),
		"many":      strings.Repeat("*a* <b>\n\n", 100_000),
		"quotes":    strings.Repeat("> ", 100_000) + "<a>",
	} {
		require.NotContains(t, htmlmark.Render(source, htmlmark.Options{}), "<a>", name)
	}
}
