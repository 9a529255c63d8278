package terminal_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestWithoutATerminalTheSessionIsPlain(t *testing.T) {
	t.Parallel()
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	cmd := p.command(pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	cmd.Stdin = strings.NewReader("hi\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "Hello.")
	require.NotContains(t, string(out), "\x1b")

	for _, env := range []string{"TERM=dumb", "TERM="} {
		p.Terminal = termtest.Start(t, p.command(pygenttest.NewServer(t), env), 80, 24)
		p.Await("Type a message. /help lists the commands, /exit leaves.")
		p.Type("/exit\n")
		p.left()
		require.NotContains(t, string(p.Raw()), "\x1b")
	}
}

func TestHostileTextsDriveNothing(t *testing.T) {
	t.Parallel()
	evil := "\x1b[35;45mcolour\x1b[2J\x1b]0;title\x07\u009b2J\r\nnext"
	p := sit(t, pygenttest.NewServer(t,
		pygenttest.TextAndCalls(evil+"\n\n", bash("printf '"+`\033[35;45mout\033]0;title\007`+"'; : '"+evil+"'")),
		pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil}})))
	p.Type("go\n")
	p.Await("Run this on your machine?", "␛[35;45mcolour␛[2J␛]0;title␇")
	p.answers("y")
	p.Await("? ␛[35;45mcolour", "1. ␛[35;45mcolour", "Ready")
	s := p.Screen()
	require.Empty(t, s.Title)
	require.Zero(t, s.Bells)
	p.leaves()
	require.NotContains(t, string(p.Raw()), "\x1b[35;45m")
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			require.NotContains(t, run.Style, "bg=5")
		}
	}
}

func TestWithoutColours(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("# Title\n\n`code`")), "NO_COLOR=1")
	p.Type("go\n")
	p.Await("code", "Done", "Ready")
	p.leaves()
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			require.NotContains(t, run.Style, "fg=")
		}
	}
}
