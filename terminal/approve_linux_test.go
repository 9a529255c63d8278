package terminal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestAnswersToTheQuestionAboutACall(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(p *person)
		want   string // of the call's result
	}{
		"once":         {func(p *person) { p.answers("y") }, "42"},
		"the number":   {func(p *person) { p.answers("1") }, "42"},
		"always":       {func(p *person) { p.answers("a") }, "42"},
		"the selected": {func(p *person) { p.answers("\n") }, "error: denied by the user"},
		"by arrows":    {func(p *person) { p.reads(); p.Key("up", "up"); p.Await("❯ 1. Yes"); p.Key("enter") }, "42"},
		"no":           {func(p *person) { p.answers("n") }, "error: denied by the user"},
		"a reason": {func(p *person) {
			p.answers("r")
			p.Await("why not: ")
			p.Type("too dangerous\n")
		}, "error: denied: the user says: too dangerous"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("I see.")))
			p.Type("go\n")
			p.Await("Run this on your machine?")
			tt.answer(p)
			p.Await("I see.", "Ready")
			require.Contains(t, results(p.leaves())[0], tt.want)
		})
	}
}

func TestWhatWasTypedAheadAnswersNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."), pygenttest.Text("And that.")))
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("y")
	p.Await("› y")
	persontest.Give(t, gate)
	persontest.TypeBlindly(t, p.Terminal, "y", "too early: typed before the question appeared")
	p.Type("\n1")
	p.reads()
	p.Paste("y")
	p.Await("pasted text does not answer")
	p.reads()
	p.Send("y\r")
	p.Await("several keys at once do not answer")
	p.reads()
	p.Type("go\n")
	p.Await("too early: typed before the question appeared")
	p.reads()
	require.Contains(t, p.Screen().Text(), "Run this on your machine?", "nothing has answered")
	p.Type("n")
	p.Await("I see.", "Ready", "› yy")
	p.Type("\n")
	p.Await("And that.", "Ready")
	msgs := p.leaves()
	require.Equal(t, []string{"error: denied by the user"}, results(msgs))
	require.Regexp(t, "^yy+1?o$", msgs[len(msgs)-2].Text(), "what continued the draft is in it")
	before, _, _ := strings.Cut(string(p.Raw()), "arrows and Enter")
	require.Contains(t, before, "too early", "keys are not offered before they answer")
}

func TestCtrlCInterruptsTheQuestionAboutACall(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("As you like.")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.Key("ctrl+c")
	p.Await("not run: interrupted by the user", "■ Interrupted", "Ready")
	p.Type("say something\n")
	p.Await("As you like.", "Ready")
	require.Equal(t, []string{"not run: interrupted by the user"}, results(p.leaves()), "nobody denied it")
}

func TestAnEditIsShownAsADiff(t *testing.T) {
	t.Parallel()
	write := pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\ntwo\n"})
	p := sit(t, pygenttest.NewServer(t, write, pygenttest.Text("Done it.")))
	p.Type("go\n")
	p.Await("Change this file on your machine?", "│ a.txt", "│ + one")
	p.answers("y")
	p.Await("✓ write a.txt · +2 −0", "  + one\n  + two", "Done it.", "Ready")
	green := false
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			green = green || strings.Contains(run.Text, "+ two") && run.Style == "fg=2"
		}
	}
	require.True(t, green, "what is new is green")
	p.leaves()
}

func TestAnApprovalShowsTheLinesOfTheFile(t *testing.T) {
	t.Parallel()
	before := make([]string, 120)
	for i := range before {
		before[i] = fmt.Sprintf("line %d", i+1)
	}
	long := strings.Repeat("x", 300) + "; rm -rf /"
	after := slices.Clone(before)
	after[99], after[110] = long, "other"
	change := map[string]any{"path": "a.txt", "old_text": strings.Join(before[98:112], "\n"), "new_text": strings.Join(after[98:112], "\n")}
	write := pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": strings.Join(before, "\n")})
	p := sit(t, pygenttest.NewServer(t, write, pygenttest.Call("edit_file", change), pygenttest.Text("Done it.")))
	p.Resize(80, 40)
	p.Type("go\n")
	p.Await("Change this file on your machine?")
	p.answers("y")
	screen := p.Await("Change this file on your machine?", " 99 │   line 99", "100 │ - line 100", "100 │ + xxx", " .. │ 6 lines as before", "111 │ - line 111", "111 │ + other").String()
	require.NotContains(t, screen, showsAll, "it is all there")
	require.Contains(t, strings.ReplaceAll(screen, "\n│    │ ", ""), long, "no end of a line is hidden")
	p.answers("n")
	p.Await("Done it.", "Ready")
	p.leaves()
}

func TestAnApprovalNamesTheFileThatIsMadeEmpty(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": ""}), pygenttest.Text("Done it.")))
	p.Type("go\n")
	p.Await("Change this file on your machine?", "│ a.txt", "│ path: a.txt")
	p.answers("n")
	p.Await("Done it.", "Ready")
	p.leaves()
}

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
	t.Parallel()
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
	t.Parallel()
	var lines []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("echo all of line %d", i))
	}
	p := sit(t, pygenttest.NewServer(t, bash(strings.Join(lines, "\n")), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Run this on your machine?", showsAll)
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
