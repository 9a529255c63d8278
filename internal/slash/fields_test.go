package slash

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFields(t *testing.T) {
	for args, want := range map[string][]string{
		"":                     nil,
		"  ":                   nil,
		"a b\tc":               {"a", "b", "c"},
		`"a b" 'c d' e\ f`:     {"a b", "c d", "e f"},
		`'' ""`:                {"", ""},
		`it"'"s 'say "x"'`:     {"it's", `say "x"`},
		`"a \"b\" \\ \n"`:      {`a "b" \ \n`},
		`C:\dir\file \\host\x`: {`C:\dir\file`, `\host\x`},
		`$HOME *.go ~/x`:       {"$HOME", "*.go", "~/x"},
		"日本 語":                 {"日本", "語"},
	} {
		got, err := Fields(args)
		require.NoError(t, err, args)
		require.Equal(t, want, got, args)
	}
	for _, args := range []string{`"a`, `a 'b`, `"a\"`, `'a\''`} {
		_, err := Fields(args)
		require.ErrorContains(t, err, "not closed", args)
	}
}

func TestTyped(t *testing.T) {
	for args, want := range map[string]struct {
		words []string
		last  string // as it was typed
	}{
		"":               {[]string{""}, ""},
		"a":              {[]string{"a"}, "a"},
		"a ":             {[]string{"a", ""}, ""},
		"a  日本":          {[]string{"a", "日本"}, "日本"},
		`x "a b`:         {[]string{"x", "a b"}, `"a b`},
		`x a\ b"c`:       {[]string{"x", "a bc"}, `a\ b"c`},
		`"a b" `:         {[]string{"a b", ""}, ""},
		"\xff \xff\xffé": {[]string{"\uFFFD", "\uFFFD\uFFFDé"}, "\xff\xffé"},
	} {
		words, from := Typed(args)
		require.Equal(t, want.words, words, args)
		require.Equal(t, want.last, args[from:], args)
	}
}

func FuzzQuote(f *testing.F) {
	f.Add(`a "b c" \' d`)
	f.Fuzz(func(t *testing.T, word string) {
		fields, err := Fields("x " + Quote(word))
		require.NoError(t, err)
		require.Equal(t, []string{"x", string([]rune(word))}, fields)
	})
}

func FuzzFields(f *testing.F) {
	f.Add(`a "b c" \' d`)
	f.Fuzz(func(t *testing.T, args string) {
		fields, err := Fields(args)
		if strings.ContainsAny(args, `'"\`) {
			return
		}
		require.NoError(t, err)
		require.Equal(t, strings.Fields(string([]rune(args))), append([]string{}, fields...))
	})
}
