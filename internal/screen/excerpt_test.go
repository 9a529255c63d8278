package screen

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestRows(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"1 │ "}},
		{"lines", "a\n\n  b\n", []string{"1 │ a", "2 │ ", "3 │   b"}},
		{"blank lines", "a\n" + strings.Repeat(" \t\n", 8) + "b", []string{" 1 │ a", "   │ … 8 blank lines …", "10 │ b"}},
		{"blank lines that only look it", "a\n\u00a0\n\r\n\nb", []string{"1 │ a", "  │ … 3 blank lines …", "5 │ b"}},
		{"spaces", "a" + strings.Repeat(" ", 500) + "rm -rf x", []string{"1 │ a… 500 spaces …rm ", "  │ -rf x"}},
		{"a carriage return", "rm -rf x\rls", []string{"1 │ rm -rf x␍ls"}},
		{"a long line", strings.Repeat("x", 45), []string{"1 │ " + strings.Repeat("x", 20), "  │ " + strings.Repeat("x", 20), "  │ xxxxx"}},
		{"wide characters", strings.Repeat("日", 12), []string{"1 │ " + strings.Repeat("日", 10), "  │ 日日"}},
		{"a line like a margin", "2 │ ls", []string{"1 │ 2 │ ls"}},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, LayOut("", tt.text, 27).Rows) })
	}
}

func TestTextIsCounted(t *testing.T) {
	for text, want := range map[string]string{
		"":           "0 lines, 0 characters",
		"a":          "1 line, 1 character",
		"a\n":        "1 line, 1 character",
		"ab\nc\n":    "2 lines, 4 characters",
		"ü\n\nb\n\n": "3 lines, 4 characters",
	} {
		require.Equal(t, want, LayOut("", text, 80).Size())
		require.Equal(t, want, LayOut("a title", text, 80).Size(), "the title is no part of the text")
	}
}

func TestTitle(t *testing.T) {
	require.Equal(t, []string{"  │ write_file \"a\"", "1 │ x"}, LayOut(`write_file "a"`, "x\n", 80).Rows)
	require.Equal(t, []string{"  │ " + strings.Repeat("x", 20), "  │ x 1 │ y␛", "1 │ z"}, LayOut(strings.Repeat("x", 21)+"\n1 │ y\x1b", "z", 27).Rows)
}

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
		fits bool
	}{
		{"ls -l", "ls -l", true},
		{"rm x\rls", "rm x␍ls", true},
		{"ls\nrm x", "", false},
		{strings.Repeat("x", 51), "", false},
		{strings.Repeat("日", 26), "", false},
		{"a" + strings.Repeat(" ", 41) + "b", "", false},
	} {
		got, fits := OneLine(tt.text, 50)
		require.Equal(t, tt.fits, fits, tt.text)
		if fits {
			require.Equal(t, tt.want, got)
		}
	}
}

func TestExcerptAndPages(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprint("line ", i+1))
	}
	text := LayOut("", strings.Join(lines, "\n"), 80)
	all, whole := text.Excerpt(100)
	require.True(t, whole)
	require.Len(t, all, 100)

	shown, whole := text.Excerpt(10)
	require.False(t, whole)
	require.Len(t, shown, 10)
	require.Equal(t, "  1 │ line 1", shown[0])
	require.Equal(t, "… 91 rows are not shown …", shown[6])
	require.Equal(t, "100 │ line 100", shown[9])

	var paged []string
	_, pages := text.Page(0, 30)
	require.Equal(t, 4, pages)
	for i := range pages {
		rows, _ := text.Page(i, 30)
		require.LessOrEqual(t, len(rows), 30)
		paged = append(paged, rows...)
	}
	require.Equal(t, text.Rows, paged)
	rows, _ := text.Page(9, 30)
	require.Empty(t, rows)
}

func TestTheBeginningAndTheEndAreSeenHoweverFewRowsThereAre(t *testing.T) {
	require.Equal(t, []string{"ls -l ⏎ id"}, Brief("ls -l\nid\n", 20, 1))
	long := "BEGIN " + strings.Repeat("日", 500) + " END"
	for rows := 1; rows <= 3; rows++ {
		brief := Brief(long, 40, rows)
		require.LessOrEqual(t, len(brief), rows)
		require.Regexp(t, `^BEGIN .* … \d+ characters … .*END$`, strings.Join(brief, ""))
		for _, row := range brief {
			require.LessOrEqual(t, width(row), 40)
		}
	}
	shown, all := LayOut("", "a\nb\nc\nd", 80).Excerpt(3)
	require.Equal(t, []string{"1 │ a", "… 2 rows are not shown …", "4 │ d"}, shown)
	require.False(t, all)
}

func FuzzNew(f *testing.F) {
	f.Add("a\n\n\n\n\tb\r\x1b[2J日\u202e"+strings.Repeat(" ", 50), 40)
	f.Add("a\n\n\n\nb", 0)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		laid := LayOut("", text, columns%200)
		for _, row := range laid.Rows {
			require.NotContains(t, row, "\n")
			require.True(t, utf8.ValidString(row))
			require.Contains(t, row, " │")
			require.LessOrEqual(t, width(row), max(columns%200, leastRow+10)+1)
		}
		shown, _ := laid.Excerpt(3)
		for _, row := range shown {
			require.LessOrEqual(t, width(row), max(columns%200, leastRow+10)+1)
		}
	})
}

func TestLabels(t *testing.T) {
	text := LayOutLabelled("a.txt", []string{"- a", "+ " + strings.Repeat("x", 20)}, []string{"9", "10"}, 28)
	require.Equal(t, []string{"   │ a.txt", " 9 │ - a", "10 │ + " + strings.Repeat("x", 18), "   │ xx"}, text.Rows)
	require.Equal(t, "2 lines, 25 characters", text.Size())
}
