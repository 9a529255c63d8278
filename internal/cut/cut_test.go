package cut_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/cut"
)

func FuzzCut(f *testing.F) {
	f.Add("grüße 日本 🙂", 7)
	f.Add(strings.Repeat("\x80", 100), 10)
	f.Add("a\xf0\x9f\x99", 2)
	f.Add("000000000000\x9c\x9f\x99\x82", 15)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		head, tail := cut.Head(s, n), cut.Tail(s, n)
		require.True(t, strings.HasPrefix(s, head))
		require.True(t, strings.HasSuffix(s, tail))
		least := min(len(s), max(0, n-utf8.UTFMax+1))
		for _, part := range []string{head, tail} {
			require.LessOrEqual(t, len(part), n)
			require.GreaterOrEqual(t, len(part), least)
			if utf8.ValidString(s) {
				require.True(t, utf8.ValidString(part))
			}
		}
		short := cut.Middle(s, n)
		require.LessOrEqual(t, len(short), n+64)
		if len(s) <= n {
			require.Equal(t, s, short)
		} else {
			require.True(t, strings.HasPrefix(short, cut.Head(s, n/2)))
			require.True(t, strings.HasSuffix(short, cut.Tail(s, n/2)))
		}
	})
}

func TestPiecesKeepWholeCharacters(t *testing.T) {
	for name, tc := range map[string]struct{ piece, head, tail string }{
		"nothing":                 {"", "", ""},
		"whole characters":        {"aé€", "aé€", "aé€"},
		"the start of one":        {"a\xe2\x82", "a", "a\xe2\x82"},
		"the end of one":          {"\x82\xaca", "\x82\xaca", "a"},
		"the middle of one":       {"\x9f\x98", "\x9f\x98", ""},
		"bytes of no character":   {"\xff\xff\xff\xff", "\xff\xff\xff\xff", "\xff\xff\xff\xff"},
		"a start and then others": {"\xe2aa", "\xe2aa", "\xe2aa"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.head, string(cut.TrimEnd([]byte(tc.piece))))
			require.Equal(t, tc.tail, string(cut.TrimStart([]byte(tc.piece))))
		})
	}
}

func TestLineIsTheBeginningInOneLine(t *testing.T) {
	require.Equal(t, "a b c", cut.Line(" a\n\tb \u2028c\r\n", 10))
	require.Equal(t, "a b", cut.Line("a b\nc", 3))
	require.Equal(t, "ab", cut.Line("abäc", 3), "no character is split")
	require.Empty(t, cut.Line(" \n", 3))
}
