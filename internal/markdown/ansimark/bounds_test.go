package ansimark

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/markdown"
)

func TestHugeBlocksAreShownAsTheyAreWritten(t *testing.T) {
	source := "```\n" + strings.Repeat("*a*\x1b\n", maxBlock/5) + "```\n"
	require.Equal(t, strings.ReplaceAll(source, "\x1b", "␛"), Render(source, Options{Colours: true}))
}

func TestCodeThatIsTooLargeIsNotHighlighted(t *testing.T) {
	o := Options{Colours: true}
	for name, body := range map[string]string{
		"block": strings.Repeat("var a\n", markdown.MaxHighlighted/6+1),
		"line":  "var " + strings.Repeat("a", markdown.MaxHighlightedLine) + "\n",
	} {
		text := Render("```go\n"+body+"```\n", o)
		require.NotContains(t, text, "\x1b[35m", name)
		require.Equal(t, "go\n"+body, sgr.ReplaceAllString(text, ""), name)
	}
	require.Contains(t, Render("```go\nvar a\n```\n", o), "\x1b[35mvar\x1b[0m a\n")
}

// palettes are the colours that terminals come with: of the background, and of the
// parameters 31 to 36 and 91 to 96.
var palettes = map[string][]uint32{
	"xterm, dark":             {0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff},
	"xterm, light":            {0xffffff, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff},
	"Linux":                   {0x000000, 0xaa0000, 0x00aa00, 0xaa5500, 0x0000aa, 0xaa00aa, 0x00aaaa, 0xff5555, 0x55ff55, 0xffff55, 0x5555ff, 0xff55ff, 0x55ffff},
	"GNOME, dark":             {0x171421, 0xc01c28, 0x26a269, 0xa2734c, 0x12488b, 0xa347ba, 0x2aa1b3, 0xf66151, 0x33da7a, 0xe9ad0c, 0x2a7bde, 0xc061cb, 0x33c7de},
	"GNOME, light":            {0xffffff, 0xc01c28, 0x26a269, 0xa2734c, 0x12488b, 0xa347ba, 0x2aa1b3, 0xf66151, 0x33da7a, 0xe9ad0c, 0x2a7bde, 0xc061cb, 0x33c7de},
	"Windows Terminal":        {0x0c0c0c, 0xc50f1f, 0x13a10e, 0xc19c00, 0x0037da, 0x881798, 0x3a96dd, 0xe74856, 0x16c60c, 0xf9f1a5, 0x3b78ff, 0xb4009e, 0x61d6d6},
	"VS Code, dark":           {0x1e1e1e, 0xcd3131, 0x0dbc79, 0xe5e510, 0x2472c8, 0xbc3fbc, 0x11a8cd, 0xf14c4c, 0x23d18b, 0xf5f543, 0x3b8eea, 0xd670d6, 0x29b8db},
	"VS Code, light":          {0xffffff, 0xcd3131, 0x107c10, 0x949800, 0x0451a5, 0xbc05bc, 0x0598bc, 0xcd3131, 0x14ce14, 0xb5ba00, 0x0451a5, 0xbc05bc, 0x0598bc},
	"Terminal of macOS, dark": {0x000000, 0x990000, 0x00a600, 0x999900, 0x0000b2, 0xb200b2, 0x00a6b2, 0xe50000, 0x00d900, 0xe5e500, 0x0000ff, 0xe500e5, 0x00e5e5},
	"Terminal of macOS":       {0xffffff, 0x990000, 0x00a600, 0x999900, 0x0000b2, 0xb200b2, 0x00a6b2, 0xe50000, 0x00d900, 0xe5e500, 0x0000ff, 0xe500e5, 0x00e5e5},
	"Solarized, dark":         {0x002b36, 0xdc322f, 0x859900, 0xb58900, 0x268bd2, 0xd33682, 0x2aa198, 0xcb4b16, 0x586e75, 0x657b83, 0x839496, 0x6c71c4, 0x93a1a1},
	"Solarized, light":        {0xfdf6e3, 0xdc322f, 0x859900, 0xb58900, 0x268bd2, 0xd33682, 0x2aa198, 0xcb4b16, 0x586e75, 0x657b83, 0x839496, 0x6c71c4, 0x93a1a1},
}

// No palette is one in which a colour cannot be read at all, as yellow on white
// (1.7) and blue on black (1.6) are.
func TestColoursAreReadableOnBothBackgrounds(t *testing.T) {
	for r := roleText + 1; r < roles; r++ {
		n, err := strconv.Atoi(colours[r])
		require.NoError(t, err)
		if n == 2 {
			continue // faint text of the terminal's own colour
		}
		at := n - 30
		if n > 90 {
			at = n - 90 + 6
		}
		for name, palette := range palettes {
			require.GreaterOrEqual(t, contrast(palette[at], palette[0]), 1.9, "role %d, colour %d: %s", r, n, name)
		}
	}
}

// contrast returns the contrast of two colours as WCAG defines it.
func contrast(a, b uint32) float64 {
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}

func luminance(rgb uint32) float64 {
	linear := func(c uint32) float64 {
		if v := float64(c&0xff) / 255; v > 0.04045 {
			return math.Pow((v+0.055)/1.055, 2.4)
		} else {
			return v / 12.92
		}
	}
	return 0.2126*linear(rgb>>16) + 0.7152*linear(rgb>>8) + 0.0722*linear(rgb)
}

func TestColours(t *testing.T) {
	require.Equal(t, "a `b`\n", Render("*a* `b`", Options{}))
	require.Equal(t, "‹3›a‹› ‹94›b‹›\n", readable(Render("*a* `b`", Options{Colours: true})))
}

func TestTabsOfCode(t *testing.T) {
	source := "```\n\ta\tb\n日\tc\n```\n"
	require.Equal(t, "```\n\ta\tb\n日\tc\n```\n", Render(source, Options{}))
	require.Equal(t, "```\n    a   b\n日  c\n```\n", Render(source, Options{Tab: 4}))
}

// answer returns an answer of a model, of at least size bytes.
func answer(size int) string {
	const part = "## What was wrong\n\nThe *parser* took `a, b` for **one** argument, see [the issue](https://example.com/issues/1). " +
		"So the second one was never read, and the function that is called with it got nothing.\n\n" +
		"1. Split the line at the comma.\n2. Trim each part:\n   - spaces\n   - tabs\n\n" +
		"```go\n// Split splits a line.\nfunc Split(line string) []string {\n\tvar parts []string\n\tfor part := range strings.SplitSeq(line, \",\") {\n\t\tparts = append(parts, strings.TrimSpace(part))\n\t}\n\treturn parts\n}\n```\n\n" +
		"| Test | Before | After |\n| --- | ---: | ---: |\n| split | 12 ms | 3 ms |\n| trim | 1 ms | 1 ms |\n\n> It was like this from the beginning.\n\n" +
		"```python\ndef split(line: str) -> list[str]:\n    \"\"\"Splits a line.\"\"\"\n    return [part.strip() for part in line.split(\",\")]  # trimmed\n```\n\n"
	return strings.Repeat(part, 1+size/len(part))
}

func BenchmarkRender(b *testing.B) {
	source := answer(8 << 10)
	for name, o := range map[string]Options{"plain": {}, "colours": {Colours: true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				Render(source, o)
			}
		})
	}
}

// The answer arrives in small pieces, and each block is rendered when it ends.
func BenchmarkStreamed(b *testing.B) {
	source := answer(50 << 10)
	b.SetBytes(int64(len(source)))
	for b.Loop() {
		var s markdown.Splitter
		for rest := source; rest != ""; {
			n := min(40, len(rest))
			for _, block := range s.Write(rest[:n]) {
				Render(block, Options{Colours: true})
			}
			rest = rest[n:]
		}
		for _, block := range s.Close() {
			Render(block, Options{Colours: true})
		}
	}
}

// What is copied has the line ends of the text and those that take the place of a
// space, in Chinese and Japanese as elsewhere.
func TestLinesEndAtSpacesOnly(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("日本語の文章、", 40),
		strings.Repeat("中文 and English 混在 ", 20),
		"- " + strings.Repeat("リスト", 50) + " word " + strings.Repeat("項目", 30),
		strings.Repeat("long words and more ", 20) + strings.Repeat("漢", 60) + strings.Repeat(" and more", 20),
	} {
		for width := 20; width < 90; width++ {
			got := Render(source, Options{Width: width})
			require.Equal(t, strings.Join(strings.Fields(source), " "), strings.Join(strings.Fields(got), " "))
		}
	}
	require.Equal(t, "漢字漢字漢字漢字漢字漢字 and more of\nthem\n", Render("漢字漢字漢字漢字漢字漢字 and more of them", Options{Width: 20}), "the rest of a row is filled")
}
