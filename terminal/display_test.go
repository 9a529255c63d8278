package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/livearea"
)

func TestWhatTerminalsMakeOfRowsThatAreTooLong(t *testing.T) {
	for _, tt := range []struct {
		env  string
		rows string // that the cursor goes up, from the second row of 20 columns
	}{
		{"TERM=xterm-256color", "3"},
		{"TERM=unheard-of", "3"},
		{"TERM=screen TMUX=/tmp/tmux", "3"},
		{"TERM=linux TMUX=/tmp/tmux TERM_PROGRAM=vscode STY=1", "3"},
		{"TERM=xterm-256color TERM_PROGRAM=vscode", "2"},
		{"TERM=xterm-256color TERM_PROGRAM=Hyper", "2"},
		{"TERM=xterm-256color XTERM_VERSION=XTerm(390)", "1"},
		{"TERM=screen STY=1.pts TERM_PROGRAM=vscode", "1"},
		{"TERM=linux", "1"},
		{"TERM=vt100", "1"},
		{"TERM=vt220-w", "1"},
		{"TERM=st-256color", "1"},
	} {
		t.Run(tt.env, func(t *testing.T) {
			for _, name := range []string{"TERM", "TMUX", "STY", "TERM_PROGRAM", "XTERM_VERSION"} {
				t.Setenv(name, "")
			}
			for _, v := range strings.Fields(tt.env) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			area, row := livearea.New(20, 5, terminalKind()...), strings.Repeat("x", 20)
			area.Draw("", livearea.View{Rows: []string{row, row}, Row: 1, Col: 15})
			area.Resize(10, 5)
			require.Contains(t, area.Draw("", livearea.View{Rows: []string{"y"}}), "\x1b["+tt.rows+"A")
		})
	}
}

func TestWhatACommandWritesIsBrokenBetweenWords(t *testing.T) {
	s := &session{}
	s.display.area = livearea.New(30, 5)
	const long = "what commands change is shown by /diff N, where there are checkpoints"
	rows := strings.Split(s.fitted("a   b  c\n"+long+"\n  https://example.org/"+strings.Repeat("x", 30)), "\n")
	require.Equal(t, "a   b  c", rows[0])
	require.Equal(t, "  https://example.org/"+strings.Repeat("x", 30), rows[len(rows)-1], "it can be copied")
	for _, row := range rows[1 : len(rows)-1] {
		require.LessOrEqual(t, livearea.Width(row), 30)
	}
	require.Equal(t, strings.Fields(long), strings.Fields(strings.Join(rows[1:len(rows)-1], " ")))
}
