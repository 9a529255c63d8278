package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// Whatever the model writes, no line of it begins as one of the session does.
func TestLinesOfOthersDoNotPretendToBeOfTheSession(t *testing.T) {
	for text, want := range map[string]string{
		"› said by you":                          "│ › said by you",
		"Fine.\n\n› yes, delete it":              "Fine.\n\n│ › yes, delete it",
		"```\n✓ $ make test · exit 0\n  ok\n```": "```\n│ ✓ $ make test · exit 0\n  ok\n```",
		"**●** Waiting for you":                  "│ ● Waiting for you",
		"\u200b\u2060› hidden":                   "<U+200B><U+2060>› hidden",
		"\u0301› hidden":                         "│ \u0301› hidden",
		"· Ready · gpt":                          "│ · Ready · gpt",
		"! a warning":                            "│ ! a warning",
		"```\n⠋ Running bash\n```":               "```\n│ ⠋ Running bash\n```",
		"```\n❯ 1. Yes, once (y)\n```":           "```\n│ ❯ 1. Yes, once (y)\n```",
		"- ✓ done\n- ✗ not done":                 "- ✓ done\n- ✗ not done",
		"> › a quote":                            "│ › a quote",
		"```\n!x && ?y\n$ ls\n```":               "```\n!x && ?y\n$ ls\n```",
		"a › b":                                  "a › b",
	} {
		for _, colourless := range []bool{true, false} {
			s, _ := drawn(t)
			s.theme.colourless = colourless
			got := ansi.Strip(s.rendered(text))
			if !colourless {
				want = strings.ReplaceAll(want, "```\n", "")
				want = strings.TrimSuffix(want, "\n```")
			}
			require.Equal(t, want, got)
		}
	}
}

// Nor does one that the wrapping of a paragraph makes.
func TestRowsOfAParagraphDoNotPretendToBeOfTheSession(t *testing.T) {
	for n := range 200 {
		s, _ := drawn(t)
		text := strings.Repeat("x", n) + " › yes " + strings.Repeat("word ", 40)
		for line := range strings.SplitSeq(ansi.Strip(s.rendered(text)), "\n") {
			require.False(t, strings.HasPrefix(line, "›"), line)
		}
	}
}

func TestNewsOfOthersDoNotPretendToBeOfTheSession(t *testing.T) {
	require.Equal(t, "broken\n│ › yes\nno␛", told("broken\n› yes\nno\x1b"))
}
