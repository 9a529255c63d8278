package escape_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/escape"
)

func TestEscape(t *testing.T) {
	require.Equal(t, "<0xFF>", escape.Byte(0xff))
	require.Equal(t, "<0x07>", escape.Rune('\a'))
	require.Equal(t, "<U+202E>", escape.Rune('\u202e'))
	require.Equal(t, "a<0xFF>ü\ufffd", escape.Valid("a\xffü\ufffd"))
}

func TestIsControl(t *testing.T) {
	for _, r := range "\x00\a\b\r\x1b\x7f\u0085\u009b\u061c\u202e\u2066\u2028\u2029" {
		require.True(t, escape.IsControl(r), "%U", r)
	}
	for _, r := range "\n\ta ü\u200d\ufeff\u00a0🙂" {
		require.False(t, escape.IsControl(r), "%U", r)
	}
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"main.go":            "main.go",
		"with blanks.txt":    "with blanks.txt",
		"ünï 日本.txt":         "ünï 日本.txt",
		"it's":               "it's",
		"":                   "",
		" x":                 `" x"`,
		"x ":                 `"x "`,
		`"x"`:                `"\"x\""`,
		"a\nb":               `"a\nb"`,
		"a\x1b[2Kb":          `"a\x1b[2Kb"`,
		"a\xffb":             `"a\xffb"`,
		"photo\u202egpj.exe": `"photo\u202egpj.exe"`,
		"zero\u200bwidth":    `"zero\u200bwidth"`,
		"3.01\u202fPM.png":   `"3.01\u202fPM.png"`,
		"no\u00a0break":      `"no\u00a0break"`,
	} {
		require.Equal(t, want, escape.Name(name))
	}
}

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\ufeffa\r\nb\rc\td\n": "a\nb\nc\td\n", "a\xffb": "ab", "a\x00\x1b[31mb\u202e\u2028": "a[31mb",
		"ok\U000e0041\U000e0042\U000e01ef": "ok", "👩\u200d💻\ufe0f x\u00a0ü\ufffd": "👩\u200d💻\ufe0f x\u00a0ü\ufffd",
	} {
		require.Equal(t, want, escape.Readable(text))
	}
}

func TestSeen(t *testing.T) {
	require.Equal(t, "3.01 PM.png", escape.Seen("3.01\u202fPM\u200b.p\u202eng"))
	require.Equal(t, "a b", escape.Seen("a\tb"))
}

func FuzzName(f *testing.F) {
	f.Add("a\u202eb\n\xff")
	f.Fuzz(func(t *testing.T, name string) {
		got := escape.Name(name)
		require.True(t, utf8.ValidString(got))
		require.Negative(t, strings.IndexFunc(got, func(r rune) bool { return r == '\n' || escape.IsControl(r) }))
	})
}
