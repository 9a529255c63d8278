package terminal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/termtest"
	"github.com/x/pygent/pygenttest"
)

// Whatever the window's size, a person sees where a command begins and how it ends,
// and which answers there are.
func TestWhatIsAllowedIsSeenInLowWindows(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		b.WriteString("echo BEGIN\n")
		for i := range n - 2 {
			fmt.Fprintf(&b, "echo line %d\n", i)
		}
		return b.String() + "echo END"
	}
	for name, command := range map[string]string{
		"400 lines":       lines(400),
		"a long line":     "echo BEGIN " + strings.Repeat("word ", 1000) + "; echo END",
		"blank lines":     "echo BEGIN" + strings.Repeat("\n", 300) + "echo END",
		"spaces":          "echo BEGIN" + strings.Repeat(" ", 3000) + "; echo END",
		"wide characters": "echo BEGIN " + strings.Repeat("日本", 500) + "; echo END",
		"tabs":            "echo BEGIN" + strings.Repeat("\t", 500) + "; echo END",
		"no width":        "echo BEGIN " + strings.Repeat("\u200b", 500) + "; echo END",
		"reordered":       "echo BEGIN \u202e# dne # \u2066" + strings.Repeat("x", 500) + "; echo END",
		"carriage return": "echo BEGIN; echo END\r" + strings.Repeat(" ", 100) + "END",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, bash(command), pygenttest.Text("I see.")))
			p.Type("go\n")
			p.Await("BEGIN", "END", "Yes, once")
			for _, size := range [][2]int{{80, 10}, {40, 8}, {40, 5}, {80, 4}, {20, 8}, {80, 24}} {
				p.Resize(size[0], size[1])
				p.Until(fmt.Sprint(size), func(s termtest.Screen) bool {
					text, joined := s.Text(), strings.Join(s.Lines, "")
					yes := strings.Contains(text, "Yes, once") || strings.Contains(text, "y yes") && strings.Contains(text, "n no") && strings.Contains(text, "v all")
					return strings.Contains(joined, "BEGIN") && strings.Contains(joined, "END") && yes && strings.Contains(text, "arrows and Enter")
				})
			}
			p.Type("n")
			p.Await("I see.", "Ready")
			require.Equal(t, []string{"error: denied by the user"}, results(p.leaves()))
		})
	}
}

func TestWhatIsNotSeenIsNotAllowed(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.Resize(70, 3)
	p.Until("a window without the command", func(s termtest.Screen) bool {
		return !strings.Contains(s.Text(), "$((6*7))") && strings.Contains(s.Text(), "y yes")
	})
	p.answers("y")
	p.Await("press v, or enlarge the window")
	p.Resize(70, 20)
	p.Await("echo $((6*7))", "Yes, once")
	p.answers("y")
	p.Await("I see.", "Ready")
	require.Contains(t, results(p.leaves())[0], "42")
}

func TestAllOfItIsPrintedOnRequest(t *testing.T) {
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("echo all of line %d", i))
	}
	p := sit(t, pygenttest.NewServer(t, bash(strings.Join(lines, "\n")), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Run this on your machine?", "v shows it all above")
	for page := range 3 {
		p.answers("v")
		p.Until("the page", func(termtest.Screen) bool { return strings.Contains(p.All(), fmt.Sprintf("page %d of 3", page+1)) })
	}
	all := p.All()
	for i, line := range lines {
		require.Contains(t, all, fmt.Sprintf("%2d │ %s\n", i+1, line))
	}
	p.Type("n")
	p.Await("I see.", "Ready")
	p.leaves()
}
