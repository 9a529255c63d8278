package ansimark

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent/internal/markdown"
)

var update = flag.Bool("update", false, "write the files with what is expected in testdata")

// Each testdata/NAME.md is rendered as NAME.txt, in which ‹1;36› stands for the SGR
// sequence with these parameters, and ‹› for the one that resets all.
func TestRender(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("testdata", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, file := range sources {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			for _, look := range []struct {
				title   string
				options Options
			}{
				{"72 columns, 16 colours", Options{Width: 72, Colours: true, patience: time.Minute}},
				{"40 columns, no attributes", Options{Width: 40}},
			} {
				text := Render(string(source), look.options)
				check(t, string(source), text, look.options)
				require.Equal(t, text, blockwise(string(source), look.options), "block by block")
				fmt.Fprintf(&got, "=== %s\n%s", look.title, readable(text))
			}
			golden := strings.TrimSuffix(file, ".md") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
		})
	}
}

var sgr = regexp.MustCompile(`\x1b\[([0-9;]+)m`)

// readable returns a rendered text with visible sequences.
func readable(text string) string {
	return strings.ReplaceAll(sgr.ReplaceAllString(text, "‹$1›"), "‹0›", "‹›")
}

// blockwise returns the blocks of a text rendered one by one.
func blockwise(source string, o Options) string {
	var s markdown.Splitter
	var texts []string
	for _, block := range append(s.Write(source), s.Close()...) {
		if text := Render(block, o); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// check checks what holds for every text.
func check(t testing.TB, source, text string, o Options) {
	t.Helper()
	if text != "" {
		require.True(t, strings.HasSuffix(text, "\n"))
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		sequences := sgr.FindAllString(line, -1)
		for i, s := range sequences {
			require.Equal(t, i%2 == 1, s == reset, "attributes are switched on and off by turns in %q", line)
		}
		require.Zero(t, len(sequences)%2, "a line resets its attributes: %q", line)
		require.True(t, o.Colours || len(sequences) == 0)
		for _, r := range sgr.ReplaceAllString(line, "") {
			if r != '\t' && (unicode.Is(unicode.Cc, r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)) {
				t.Fatalf("%q has the control character %U", line, r)
			}
		}
	}
	if shown := strings.ToLower(sgr.ReplaceAllString(text, "")); !strings.Contains(source, "&") {
		for _, word := range words.FindAllString(strings.ToLower(source), -1) {
			require.Contains(t, shown, word, "a word of %q", source)
		}
	}
	if !strings.ContainsAny(source, "`~<\t") && !strings.Contains(source, "    ") {
		require.NotRegexp(t, ` (\x1b\[0m)?\n`, text, "no line ends with spaces")
	}
}

// words are what must not get lost.
var words = regexp.MustCompile("[a-z]+")

func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"# a `b`\n\n- [x] c\n- ```go\n  func d() {}\n  ```\n", "|a|b|\n|-|:-:|\n|`c\\|d`|e|f|\n", "> a\n> > b\n>\n> ```\n> c\n", "[a](b \"c\") ![d](<e f>) <https://g.h> https://i.j\n[k]: l\n[m]: n",
		"\x1b[2J &#27;]0;a\x07 `\u009b` [\u202e](\u202e)\n```\x1b\n\x1b\r\n```\n<b \x07>\n", "1. a\n\n   b\n9) c\n-\n- - - d\n", "    a\n\tb\n", "日本語、テスト。\ne\u0301 👩‍👩‍👧 ~~a~~ **b*c***\\\nd  \ne", "```diff\n-a\n+b\n```",
	} {
		f.Add(seed, 40, uint8(2), true)
	}
	f.Fuzz(func(t *testing.T, source string, width int, tab uint8, colours bool) {
		if len(source) > 4096 {
			return
		}
		o := Options{patience: time.Minute, Width: width % 200, Colours: colours, Tab: int(tab % 9)}
		text := Render(source, o)
		check(t, source, text, o)
		require.Equal(t, text, blockwise(source, o), "block by block")
	})
}
