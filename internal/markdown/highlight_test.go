package markdown

import (
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2"
	upstream "github.com/alecthomas/chroma/v2/lexers"
	"github.com/stretchr/testify/require"
)

func TestPanicsOfTheParsersAreNoTokens(t *testing.T) {
	known := lexers()
	known["bad"] = badLexer{}
	defer delete(known, "bad")
	require.Nil(t, Highlight("bad", []string{"a"}, 0))
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
		require.Equal(t, want.Tokens(), got.Tokens(), "%s: run go generate ./internal/markdown", name)
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
		lines := strings.Split(strings.ToValidUTF8(strings.ReplaceAll(code, "\r", ""), "?"), "\n")
		if tokens := Highlight(name, lines, 0); tokens != nil {
			require.Len(t, tokens, len(lines))
			for i, line := range tokens {
				require.Equal(t, lines[i], codeText(line))
			}
		}
	})
}

func TestLines(t *testing.T) {
	lines := []string{"// a", "", "var x = `b", "c`"}
	tokens := Highlight("go", lines, 0)
	require.Len(t, tokens, len(lines))
	require.Equal(t, []Token{{"// a", chroma.CommentSingle}}, tokens[0])
	require.Empty(t, tokens[1])
	require.Equal(t, Token{"var", chroma.KeywordDeclaration}, tokens[2][0])
	require.Equal(t, []Token{{"c`", chroma.LiteralString}}, tokens[3], "a token goes on in the next line")
	for name, lines := range map[string][]string{
		"no-language": {"a"},
		"go":          {strings.Repeat("a", MaxHighlightedLine+1)},
		"python":      strings.Split(strings.Repeat("a\n", MaxHighlighted), "\n"),
	} {
		require.Nil(t, Highlight(name, lines, 0), name)
	}
}

func BenchmarkFirstHighlight(b *testing.B) {
	for b.Loop() {
		newLexers()["go"].Tokenise(nil, "var a\n")
	}
}
