package termtest

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shell(t *testing.T, script string, cols, rows int) *Terminal {
	return Start(t, exec.CommandContext(t.Context(), "sh", "-c", script), cols, rows)
}

func TestTheScreenIsWhatAPersonSees(t *testing.T) {
	x := shell(t, `printf 'one\rtwo\n\033[1;31mred\033[0m 日本\n0123456789abc\n'; read line`, 10, 6)
	s := x.Await("abc")
	require.Equal(t, []string{"two", "red 日本", "0123456789", "abc", "", ""}, s.Lines)
	require.Equal(t, 0, s.X)
	require.Equal(t, 4, s.Y)
	lines := x.Lines()
	require.Equal(t, []Run{{"fg=1 bold", "red"}, {"", " 日本"}}, lines[1].Runs)
	require.Equal(t, "0123456789abc", lines[2].Text)
	x.Key("enter")
	require.NoError(t, x.Wait())
}

func TestKeysPastesAndSizesReachTheProgram(t *testing.T) {
	x := shell(t, `stty raw -echo; printf '\033[?2004hready\r\n'; head -c 23 | od -An -c; stty size`, 80, 24)
	s := x.Await("ready")
	require.True(t, s.Paste)
	x.Resize(50, 10)
	x.Key("up", "ctrl+c")
	x.Paste("a\nb")
	x.Type("zyx\n")
	s = x.Await("10 50")
	require.Contains(t, strings.Join(strings.Fields(s.Text()), " "), `033 [ A 003 033 [ 2 0 0 ~ a \r b 033 [ 2 0 1 ~ z y x \r`)
	require.NoError(t, x.Wait())
}

func TestWhatTheTerminalAnswersReachesTheProgram(t *testing.T) {
	x := shell(t, `stty raw -echo; printf '\033[6n'; head -c 6 | od -An -c`, 80, 24)
	s := x.Await("R")
	require.Equal(t, "033 [ 1 ; 1 R", strings.Join(strings.Fields(s.Text()), " "))
	require.NoError(t, x.Wait())
}

func TestWhatScrollsAwayIsKept(t *testing.T) {
	x := shell(t, `seq 1000`, 20, 5)
	require.NoError(t, x.Wait())
	require.Equal(t, 996, x.Screen().Above)
	require.Equal(t, 1000, len(strings.Fields(x.All())))
	require.Contains(t, string(x.Raw()), "999\r\n1000\r\n")
}

// A frame is seen when it is whole, although it comes in pieces, as do its marks.
func TestHalfAFrameIsNotSeen(t *testing.T) {
	x := shell(t, `stty -echo; printf 'before\r\n\033[?20'; read line; printf '26hhalf'; read line; printf ' whole\033[?2026'; read line; printf 'l'; read line`, 80, 24)
	for _, piece := range []string{"\x1b[?20", "26hhalf", " whole\x1b[?2026"} {
		require.Eventually(t, func() bool { return strings.HasSuffix(string(x.Raw()), piece) }, time.Minute, time.Millisecond)
		require.NotContains(t, x.Screen().Text(), "half")
		x.Key("enter")
	}
	x.Await("before\nhalf whole")
	x.Key("enter")
	require.NoError(t, x.Wait())
}

func TestHalfAFrameOfAProgramThatEndsIsSeen(t *testing.T) {
	x := shell(t, `printf '\033[?2026hhalf'`, 80, 24)
	require.NoError(t, x.Wait())
	require.Contains(t, x.Screen().Text(), "half")
}
