package pathname_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
)

func TestMentions(t *testing.T) {
	for text, want := range map[string][][]string{
		"nothing":                        nil,
		"a@b.org @ x @":                  nil,
		"@main.go":                       {{"main.go"}},
		"see (@a/b.txt), @c!\n@d":        {{"a/b.txt),", "a/b.txt)", "a/b.txt"}, {"c!", "c"}, {"d"}},
		`@"a b.txt" and @"open end`:      {{"a b.txt"}, {"open end"}},
		`@"a\nb" @"C:\new"`:              {{"a\nb", `a\nb`}, {"C:\new", `C:\new`}},
		"@x @x":                          {{"x"}},
		`@""`:                            nil,
		"@" + strings.Repeat("x", 1<<16): nil,
	} {
		require.Equal(t, want, pathname.Mentions(text), text)
	}
	require.Len(t, pathname.Mentions(strings.Repeat("@a", 1)+strings.Repeat(" @b", 3)), 2)
}

func TestWhatCompletionMentionsIsRead(t *testing.T) {
	for _, name := range []string{"main.go", "a b", "odd\x1b[2J\nname", "\xff", `"quoted"`, "日本.txt", "x\u202egpj", "no\u00a0break", `back\slash`} {
		got := pathname.Mentions("see " + pathname.Mention(name) + "and")
		require.Len(t, got, 1, strconv.Quote(name))
		require.Equal(t, name, got[0][0])
	}
}

func TestWhereAMentionBegins(t *testing.T) {
	for text, want := range map[string]int{
		"": -1, "@": 0, "a @b": 2, "a@b": -1, "@a b": -1, `@"a b`: 0, `@"a b" `: -1, "x\n@y": 2, "@a @b": 3, "(@a": 1,
	} {
		require.Equal(t, want, pathname.MentionAt(text), text)
	}
}
