package edit_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/edit"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestChangesAreShownWhole(t *testing.T) {
	for _, tt := range []struct{ before, after string }{{"", ""}, {"", "new\n"}, {"old", ""}, {"a\nb\n", "a\nc\n"}} {
		require.Equal(t, edit.Change{Before: tt.before, After: tt.after, Line: 1}, edit.Compare([]byte(tt.before), []byte(tt.after), 100))
	}
}

func TestLongTextsAreCutToTheirChange(t *testing.T) {
	text := numbered(1000)
	c := edit.Compare([]byte(text), []byte(strings.Replace(text, "line 500\n", "LINE 500\nand more\n", 1)), 200)
	require.Equal(t, edit.Change{
		Before: "line 497\nline 498\nline 499\nline 500\nline 501\nline 502\nline 503\n",
		After:  "line 497\nline 498\nline 499\nLINE 500\nand more\nline 501\nline 502\nline 503\n",
		Line:   497, Truncated: true,
	}, c)
	c = edit.Compare([]byte(text), nil, 20)
	require.Equal(t, edit.Change{Before: "line 1\nline 2\nline 3", Line: 1, Truncated: true}, c)
}

func TestWhatIsNoTextIsNotShown(t *testing.T) {
	for _, data := range []string{"\x00", "a\xff"} {
		require.Equal(t, edit.Change{Binary: true}, edit.Compare([]byte(data), []byte("text"), 10))
		require.Equal(t, edit.Change{Binary: true}, edit.Compare(nil, []byte(data), 10))
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("a\nb\n", "a\nc\n", 2)
	f.Add("ä\n\n\n\n\nx", "ä\n\n\n\n\ny", 3)
	f.Add("same\nsame\nsame\nsame\nsame\n", "same\nsame\nsame\nsame\nsame\nsame\n", 1)
	f.Fuzz(func(t *testing.T, before, after string, most int) {
		if most < 0 || most > 1<<20 {
			return
		}
		c := edit.Compare([]byte(before), []byte(after), most)
		require.LessOrEqual(t, len(c.Before), most)
		require.LessOrEqual(t, len(c.After), most)
		require.True(t, utf8.ValidString(c.Before) && utf8.ValidString(c.After))
		require.Contains(t, before, c.Before)
		require.Contains(t, after, c.After)
	})
}

func TestADifferenceHidesNothing(t *testing.T) {
	long := strings.Repeat("x", 1000)
	rows := edit.Rows(numbered(12), strings.Replace(strings.Replace(numbered(12), "line 3\n", "", 1), "line 10\n", long+"\n", 1), 5)
	require.Equal(t, []edit.Row{
		{Sign: ' ', Text: "line 1", Line: 5}, {Sign: ' ', Text: "line 2", Line: 6},
		{Sign: '-', Text: "line 3", Line: 7},
		{Sign: ' ', Text: "line 4", Line: 7}, {Sign: ' ', Text: "line 5", Line: 8},
		{Left: 2},
		{Sign: ' ', Text: "line 8", Line: 11}, {Sign: ' ', Text: "line 9", Line: 12},
		{Sign: '-', Text: "line 10", Line: 14}, {Sign: '+', Text: long, Line: 13},
		{Sign: ' ', Text: "line 11", Line: 14}, {Sign: ' ', Text: "line 12", Line: 15},
	}, rows)
	require.Equal(t, "@@ line 1 @@\n- a\n+ "+long[:200]+" … (800 more bytes)", edit.Diff("a", long, 0))
	require.Empty(t, edit.Diff("a\r\n", "a", 1))
	many := edit.Diff(numbered(500), "other\n", 1)
	require.Len(t, strings.Split(many, "\n"), 42)
	require.True(t, strings.HasSuffix(many, "\n… (461 more lines)"), many)
}
