package edit_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/edit"
)

func TestEditsAtTheEdgesOfLines(t *testing.T) {
	for name, tt := range map[string]struct {
		text, old, new, want string
		all                  bool
	}{
		"lines added at the end of CRLF":     {"a\r\nb\r\n", "a\nb\n", "a\nb\nc\n", "a\r\nb\r\nc\r\n", false},
		"a line added at the end of CRLF":    {"a\r\nb \r\n", "b\n", "b\nc\n", "a\r\nb \r\nc\r\n", false},
		"lines added at the end of CR":       {"a\rb\r", "a\nb\n", "a\nb\nc\n", "a\rb\rc\r", false},
		"pieces of line ends":                {"\n\r\n\r\n", "\n\r", "x", "xx\n", true},
		"blanks of another blank line":       {"f:\n\t\n    y\n", "    \n    y\n", "    z\n    y2\n", "f:\n    z\n    y2\n", false},
		"blanks of a blank first line":       {"  \nb\t\nc\n", " \nb\nc\n", "x\nb\n", "x\nb\n", false},
		"the blanks before a line that goes": {"a\n  \nb \nc\n", "a\n\nb\n", "a\nb\n", "a\nb \nc\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edit.Apply(tt.text, []edit.Edit{{Old: tt.old, New: tt.new, All: tt.all}})
			require.NoError(t, err)
			require.Equal(t, tt.want, got.Text)
		})
	}
}

// TestRandomEditsChangeOnlyWhatTheyName makes edits with the line ends and blanks
// that models get wrong. Lines that the old text does not touch stay as they are,
// to the byte.
func TestRandomEditsChangeOnlyWhatTheyName(t *testing.T) {
	pieces := []string{"a", "b", "aa", "\n", "\n", "\r\n", " \n", "\t\n", "\n\n", " ", "c\n", "b \r\n", "x\n", "\r"}
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string {
		var b strings.Builder
		for range rnd.IntN(n) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		return b.String()
	}
	made := 0
	for range 20_000 {
		before, e := text(14), edit.Edit{Old: text(5), New: text(5), All: rnd.IntN(4) == 0}
		if from := rnd.IntN(len(before) + 1); rnd.IntN(2) == 0 { // what a model has seen of it
			e.Old = before[from : from+rnd.IntN(len(before)-from+1)]
			e.Old = strings.ReplaceAll(strings.ReplaceAll(e.Old, "\r\n", "\n"), " \n", "\n")
		}
		got, err := edit.Apply(before, []edit.Edit{e})
		if err != nil || e.All || strings.Contains(before, "\r") && !strings.Contains(before, "\n") {
			continue
		}
		made++
		was, is := strings.SplitAfter(before, "\n"), strings.SplitAfter(got.Text, "\n")
		head, tail := 0, 0
		for head < min(len(was), len(is)) && was[head] == is[head] {
			head++
		}
		for tail < min(len(was), len(is))-head && was[len(was)-1-tail] == is[len(is)-1-tail] {
			tail++
		}
		require.LessOrEqual(t, len(was)-head-tail, strings.Count(e.Old, "\n")+1, "%q: %q becomes %q", before, e, got.Text)
	}
	require.Greater(t, made, 1000)
}
