package ansimark

import (
	"math"
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2"
	upstream "github.com/alecthomas/chroma/v2/lexers"
	"github.com/stretchr/testify/require"
	"github.com/x/pygent/internal/markdown"
)

// What takes time with the square of its size does not end here.
func TestRenderOfLargeTexts(t *testing.T) {
	const size = 1 << 16
	for name, source := range map[string]string{
		"no line end":    strings.Repeat("a", size),
		"words":          strings.Repeat("a ", size/2),
		"Chinese":        strings.Repeat("文", size/3),
		"quotes":         strings.Repeat(">", size),
		"quotes in line": strings.Repeat("> ", 10_000) + "a",
		"lists":          strings.Repeat("- ", size/2),
		"items":          strings.Repeat("1. a\n", size/5),
		"blank lines":    strings.Repeat("- ", 100) + "a" + strings.Repeat("\n", size) + "b",
		"emphasis":       strings.Repeat("*a _b ", size/12) + strings.Repeat("c_ d* ", size/12),
		"brackets":       strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"images":         strings.Repeat("![", size/16) + "a" + strings.Repeat("](b)", size/16),
		"code":           "```go\n" + strings.Repeat("f(\"a\")\n", size/7) + "```",
		"long code line": "```go\n" + strings.Repeat("f(\"a\")", size/6),
		"table":          "|a|b|\n|-|-|\n" + strings.Repeat("|`a\\|`|b|\n", size/10),
		"columns":        strings.Repeat("|a", size/8) + "|\n" + strings.Repeat("|-", size/8) + "|\n" + strings.Repeat("a\n", size/4),
		"HTML":           strings.Repeat("<div>\n", size/6),
		"a huge block":   "```\n" + strings.Repeat("a\n", maxBlock/2),
		"definitions":    strings.Repeat("[a]: b\n", size/7),
		"controls":       strings.Repeat("\x1b", size),
		"backticks":      strings.Repeat("`` ` ``` ", size/9) + "````",
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Width: 80, Profile: TrueColor}
			text := Render(source, o)
			require.NotEmpty(t, text)
			bare := func(text string) string { return sgr.ReplaceAllString(text, "") } // how much is highlighted depends on the time
			require.True(t, bare(text) == bare(blockwise(source, o)), "block by block")
		})
	}
}

func TestHugeBlocksAreShownAsTheyAreWritten(t *testing.T) {
	source := "```\n" + strings.Repeat("*a*\x1b\n", maxBlock/5) + "```\n"
	require.Equal(t, strings.ReplaceAll(source, "\x1b", "␛"), Render(source, Options{Profile: TrueColor}))
}

func TestCodeThatIsTooLargeIsNotHighlighted(t *testing.T) {
	o := Options{Profile: ANSI16}
	for name, body := range map[string]string{
		"block": strings.Repeat("var a\n", maxHighlighted/6+1),
		"line":  "var " + strings.Repeat("a", maxCodeLine) + "\n",
	} {
		text := Render("```go\n"+body+"```\n", o)
		require.NotContains(t, text, "\x1b[95m", name)
		require.Equal(t, "go\n"+body, sgr.ReplaceAllString(text, ""), name)
	}
	require.Contains(t, Render("```go\nvar a\n```\n", o), "\x1b[95mvar\x1b[0m a\n")
}

func TestPanicsOfTheParsersShowTheSource(t *testing.T) {
	known := lexers()
	known["bad"] = badLexer{}
	defer delete(known, "bad")
	require.Equal(t, "‹2›bad‹›\n‹94›a‹›\n", readable(Render("```bad\na\n```", Options{Profile: ANSI16})))
}

// badLexer is a lexer that panics.
type badLexer struct{ chroma.Lexer }

func (badLexer) Tokenise(*chroma.TokeniseOptions, string) (chroma.Iterator, error) { panic("bad") }

// The archive has chroma's languages as they are in the version that is used: what
// they find in their own definitions is the same.
func TestLanguagesAreThoseOfChroma(t *testing.T) {
	require.Greater(t, len(lexers()), 150)
	for _, name := range strings.Fields("bash sh c c++ cpp c# cs css diff docker dockerfile go html ini java js javascript jsx json kotlin lua make makefile php py python rb ruby rs rust scala sql swift tf toml ts tsx typescript xml yaml yml zig console powershell proto") {
		lexer := lexers()[name]
		require.NotNil(t, lexer, name)
		code := "# a\n// b\nfunc main(x int) { return \"c\" + 'd' }\n/* e */ def f(): pass\n$ ls -l\n<a href='b'>c</a>\nFROM x\nRUN [\"a\"]\n\tkey: value\n{\"a\": [1, 2.5, null]}\n+a\n-b\n"
		want, err := upstream.Get(lexer.Config().Name).Tokenise(nil, code)
		require.NoError(t, err)
		got, err := lexer.Tokenise(nil, code)
		require.NoError(t, err)
		require.Equal(t, want.Tokens(), got.Tokens(), "%s: run go generate ./internal/ansimark", name)
	}
}

func FuzzHighlight(f *testing.F) {
	for _, name := range []string{"go", "bash", "python", "html", "console", "diff", "docker", "yaml", "rust", "jsx"} {
		f.Add(name, "func f(x int) { return `a` }\n# b\n\"c\\\"\n<d e='f'>\n")
	}
	f.Fuzz(func(t *testing.T, name, code string) {
		if len(code) > 1024 {
			return
		}
		lines := strings.Split(oneLine(code)+"\n"+strings.ReplaceAll(code, "\r", ""), "\n")
		for i := range lines {
			lines[i] = oneLine(lines[i])
		}
		if coloured := tokens(name, lines); coloured != nil {
			require.Len(t, coloured, len(lines))
			for i, line := range coloured {
				require.Equal(t, lines[i], spell(line))
			}
		}
	})
}

func TestColoursAreReadable(t *testing.T) {
	for r := roleText + 1; r < roles; r++ {
		require.GreaterOrEqual(t, contrast(shades[r][0].rgb, 0xffffff), 4.5, "role %d on white", r)
		require.GreaterOrEqual(t, contrast(shades[r][1].rgb, 0x000000), 4.5, "role %d on black", r)
	}
	require.Equal(t, []int{16, 231, 196, 244, 232}, []int{nearest(0), nearest(0xffffff), nearest(0xff0000), nearest(0x808080), nearest(0x080808)})
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

func TestProfiles(t *testing.T) {
	source := "*a* `b`"
	for _, tt := range []struct {
		options Options
		want    string
	}{
		{Options{}, "a `b`\n"},
		{Options{Profile: ANSI16}, "‹3›a‹› ‹94›b‹›\n"},
		{Options{Profile: ANSI16, Light: true}, "‹3›a‹› ‹34›b‹›\n"},
		{Options{Profile: ANSI256}, "‹3›a‹› ‹38;5;111›b‹›\n"},
		{Options{Profile: TrueColor, Light: true}, "‹3›a‹› ‹38;2;28;86;168›b‹›\n"},
	} {
		require.Equal(t, tt.want, readable(Render(source, tt.options)))
	}
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
	for name, o := range map[string]Options{"Plain": {}, "TrueColor": {Profile: TrueColor}} {
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
				Render(block, Options{Profile: TrueColor})
			}
			rest = rest[n:]
		}
		for _, block := range s.Close() {
			Render(block, Options{Profile: TrueColor})
		}
	}
}

func BenchmarkFirstHighlight(b *testing.B) {
	for b.Loop() {
		newLexers()["go"].Tokenise(nil, "var a\n")
	}
}
