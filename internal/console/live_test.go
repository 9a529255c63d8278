package console

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/screen"
)

func TestTheLastLineOfWhatIsPrinted(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string
		want   string
	}{
		"a line":                {[]string{"one\n"}, "one"},
		"several":               {[]string{"one\ntwo\n\n"}, "two"},
		"not ended yet":         {[]string{"one\ntw"}, "tw"},
		"in two pieces":         {[]string{"one\ntw", "o"}, "two"},
		"a progress bar":        {[]string{"10%\r", "20%\r30%\r"}, "30%"},
		"blank":                 {[]string{"one\n", " \n\t\n"}, ""},
		"nothing":               {[]string{""}, ""},
		"a line without an end": {[]string{strings.Repeat("x", 5000), "y"}, strings.Repeat("x", maxLive) + "y"},
	} {
		var l LastLine
		got := ""
		for _, piece := range tt.pieces {
			got = l.Add(piece)
		}
		require.Equal(t, tt.want, got, name)
		require.LessOrEqual(t, len(l.unfinished), maxLive)
	}
}

func TestNothingIsLiveWhereItCannotBeTakenBack(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out)
	p.Live(time.Now(), "one\n")
	p.News(func(t *Text) { t.EndLive() })
	require.Empty(t, out.String())
}

func TestARowFits(t *testing.T) {
	require.Equal(t, "abc", screen.Row("abcdef", 3))
	require.Equal(t, "日", screen.Row("日本", 3))
	require.NotContains(t, screen.Row("\x1b[2J", 80), "\x1b")
	require.Equal(t, "", screen.Row("", 80))
	require.Equal(t, "ab", screen.Row("abc", -1))
}
