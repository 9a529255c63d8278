package livearea

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// terminalKinds are how terminals treat rows when they become narrower.
var terminalKinds = map[string]struct {
	reflow reflow
	opts   []Option
}{
	"wraps all rows":       {reflow: wrapsAll},
	"keeps the cursor row": {wrapsOthers, []Option{KeepsCursorRow}},
	"cuts rows":            {cutsAll, []Option{KeepsRows}},
}

// A frame that is on its way when the terminal becomes narrower takes nothing of
// what is above the area, and neither does the next one.
func TestAFrameForAWiderTerminalErasesNothingAbove(t *testing.T) {
	for name, kind := range terminalKinds {
		for what, row := range map[string]string{
			"words":              strings.Repeat("open ", 6),
			"disputed widths":    strings.Repeat("─", 30),
			"a row that was cut": strings.Repeat("open ", 7),
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s, a := newEmulator(t, 30, 12), New(30, 12, kind.opts...)
				s.write(a.Draw("first", View{Rows: []string{"", "status", "> "}, Row: 2, Col: 2}))
				late := a.Draw("", View{Rows: []string{row, "status", "> "}, Row: 2, Col: 2})
				s.resize(20, 12, kind.reflow)
				s.write(late)
				a.MayBeLate()
				a.Resize(20, 12)
				s.write(a.Draw("second", View{Rows: []string{"status", "> "}, Row: 1, Col: 2}))
				require.Equal(t, []string{"first", "second", "status", ">"}, s.lines())
			})
		}
	}
}

// playLate plays a session at a terminal that changes its size when frames for
// another one are on their way, and checks that it has all that was printed, once.
func playLate(t *testing.T, r *rand.Rand, how reflow, opts []Option) {
	width, height := 4+r.IntN(30), 40
	s, a := newEmulator(t, width, height), New(width, height, opts...)
	var printed []string
	var texts []string
	frame := func() string {
		finished := ""
		for range r.IntN(3) {
			line := strings.TrimRight(fmt.Sprintf("#%d ", len(printed))+text(r, 70), " ")
			printed = append(printed, strings.TrimRight(ansi.Strip(line), " "))
			finished += line + "\n"
		}
		if r.IntN(2) == 0 || texts == nil {
			texts = nil
			for range 1 + r.IntN(5) {
				texts = append(texts, text(r, 40))
			}
		}
		v := View{Rows: append([]string(nil), texts...), Row: r.IntN(5), Col: r.IntN(30)}
		v.Rows[r.IntN(len(v.Rows))] = text(r, 40)
		return a.Draw(finished, v)
	}
	for range 30 {
		s.write(frame())
		if r.IntN(3) > 0 {
			continue
		}
		width = 4 + r.IntN(30)
		late := ""
		for range r.IntN(4) {
			late += frame()
		}
		s.resize(width, height, how)
		s.write(late)
		if late != "" || r.IntN(2) == 0 {
			a.MayBeLate()
		}
		a.Resize(width, height)
	}
	all := strings.Join(s.lines(), "\n")
	rest := all
	for i, line := range printed {
		number := fmt.Sprintf("#%d", i)
		if how == cutsAll {
			line = number // it cuts what is above, too
		}
		require.Len(t, regexp.MustCompile(number+`\b`).FindAllString(all, -1), 1, "%q in\n%s", line, all)
		_, after, found := strings.Cut(rest, line)
		require.True(t, found, "%q is not in its place in\n%s", line, all)
		rest = after
	}
}
