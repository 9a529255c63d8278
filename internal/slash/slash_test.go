package slash

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][2]string{
		"/say":           {"say", ""},
		" /say  a  b \n": {"say", "a  b"},
		"/say\ta":        {"say", "a"},
		"/say\u3000a":    {"say", "a"},
		"/":              {"", ""},
		"/ x":            {"", "x"},
	} {
		name, args, ok := Split(line)
		require.True(t, ok, line)
		require.Equal(t, want, [2]string{name, args}, line)
	}
	for _, line := range []string{"", "say", "say /x", "\\say", "/etc/passwd", " /etc/passwd is what?", "//", "/tmp/\tx", "// say"} {
		_, _, ok := Split(line)
		require.False(t, ok, line)
	}
}

func TestHelp(t *testing.T) {
	commands := []Entry{{Name: "say", Usage: "TEXT", Summary: "repeat", Help: "More."}, {Name: "exit", Summary: "leave"}}
	for name, want := range map[string]string{
		"say":      "/say TEXT: repeat\nMore.\n",
		"/exit":    "/exit: leave\n",
		"":         "/exit      leave\n/say TEXT  repeat\n",
		"nope":     "no command /nope; /help lists the commands",
		"/say now": "no command /say now; /help lists the commands",
	} {
		var out strings.Builder
		if err := Help(commands, name, &out); err != nil {
			out.WriteString(err.Error())
		}
		require.Equal(t, want, out.String(), name)
	}
	require.ErrorIs(t, Help(commands, "", failing{}), errDisk)
	require.ErrorIs(t, Help(commands, "say", failing{}), errDisk)
}

var errDisk = errors.New("the disk is full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errDisk }

func TestOutput(t *testing.T) {
	kept := NewOutput(nil, 5)
	for _, text := range []string{"ab", "", "cdé", "fgh"} {
		n, err := io.WriteString(kept, text)
		require.NoError(t, err)
		require.Len(t, text, n)
	}
	require.Equal(t, "abcd\uFFFD\n… 4 more bytes not shown …\n", kept.End())
	_, err := io.WriteString(kept, "late")
	require.ErrorIs(t, err, io.ErrClosedPipe)

	var to strings.Builder
	passed := NewOutput(&to, 2)
	_, err = io.WriteString(passed, "abcdef")
	require.NoError(t, err)
	require.Empty(t, passed.End())
	_, err = io.WriteString(passed, "late")
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, "abcdef", to.String())
	_, err = io.WriteString(NewOutput(failing{}, 0), "x")
	require.ErrorIs(t, err, errDisk)
}

// narrow is a terminal of so many columns.
type narrow struct {
	strings.Builder
	columns int
}

func (n *narrow) Columns() int { return n.columns }

// At a terminal, no line is broken within a word, and none is too long.
func TestHelpInANarrowTerminal(t *testing.T) {
	commands := []Entry{
		{Name: "cp", Usage: "SRC [DEST]", Summary: "copy a file or directory of this machine into the workspace", Help: "Quote names with blanks.\nFiles are replaced only with --force."},
		{Name: "switch-something", Usage: "[on|off]", Summary: "ask before each command, or no longer"},
	}
	for name, tt := range map[string]struct {
		columns int
		command string
		want    string
	}{
		"wide":   {76, "", "/cp SRC [DEST]  copy a file or directory of this machine into the workspace\n/switch-something [on|off]\n                ask before each command, or no longer\n"},
		"narrow": {40, "", "/cp SRC [DEST]\n    copy a file or directory of this\n    machine into the workspace\n/switch-something [on|off]\n    ask before each command, or no\n    longer\n"},
		"one":    {40, "cp", "/cp SRC [DEST]: copy a file or directory\n  of this machine into the workspace\nQuote names with blanks.\nFiles are replaced only with --force.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out := &narrow{columns: tt.columns}
			require.NoError(t, Help(commands, tt.command, NewOutput(out, 0)))
			require.Equal(t, tt.want, out.String())
		})
	}
}
