package callset_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/toolcall/callset"
)

// made makes the calls of a patch in memory, but for commands.
func made(t *testing.T, all []callset.Call, files map[string]string) {
	t.Helper()
	for _, c := range all {
		var in struct {
			Path, Content string
			Old           string `json:"old_text"`
			New           string `json:"new_text"`
			Edits         []struct {
				Old string `json:"old_text"`
				New string `json:"new_text"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(c.Arguments), &in))
		switch c.Name {
		case "write_file":
			files[in.Path] = in.Content
		case "edit_file":
			edits := []edit.Edit{{Old: in.Old, New: in.New}}
			if len(in.Edits) > 0 {
				edits = nil
			}
			for _, e := range in.Edits {
				edits = append(edits, edit.Edit{Old: e.Old, New: e.New})
			}
			applied, err := edit.InFile([]byte(files[in.Path]), edits)
			require.NoError(t, err, c.Arguments)
			files[in.Path] = applied.Text
		}
	}
}

// pathOf returns the path that a call writes, or the command that it runs.
func pathOf(t *testing.T, c callset.Call) string {
	t.Helper()
	var in struct{ Path, Cmd string }
	require.NoError(t, json.Unmarshal([]byte(c.Arguments), &in))
	return in.Path + in.Cmd
}

// change is one of the changes from which a diff is made: n lines at a line go, and others come.
type change struct {
	at, n int
	new   []string
}

// changed returns lines with changes, which are in order.
func changed(lines []string, changes []change) (after []string) {
	from := 0
	for _, c := range changes {
		after = append(append(after, lines[from:c.at]...), c.new...)
		from = c.at + c.n
	}
	return append(after, lines[from:]...)
}

// diffOf writes a unified diff with some lines around each change.
func diffOf(lines []string, changes []change, around int) string {
	var b strings.Builder
	b.WriteString("--- a/f\n+++ b/f\n")
	shift := 0
	for _, c := range changes {
		from, to := max(c.at-around, 0), min(c.at+c.n+around, len(lines))
		begin := from + 1
		if from == to {
			begin = from // after which lines come
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", begin, to-from, from+1+shift, to-from-c.n+len(c.new))
		for at := from; at < to; at++ {
			if at == c.at {
				writeNew(&b, c.new)
			}
			op := " "
			if at >= c.at && at < c.at+c.n {
				op = "-"
			}
			b.WriteString(op + lines[at] + "\n")
		}
		if c.at == to {
			writeNew(&b, c.new)
		}
		shift += len(c.new) - c.n
	}
	return b.String()
}

func writeNew(b *strings.Builder, lines []string) {
	for _, l := range lines {
		b.WriteString("+" + l + "\n")
	}
}

// TestADiffMakesWhatItSays changes texts of few different lines, of which only the numbers of a
// diff tell which is meant.
func TestADiffMakesWhatItSays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "b", "  a", "-- a", "++ b", "}", "@@ x", "*** y"}
	some := func(n int) (lines []string) {
		for range n {
			lines = append(lines, words[r.IntN(len(words))])
		}
		return lines
	}
	for range 3000 {
		lines := some(4 + r.IntN(20))
		var changes []change
		for at := r.IntN(3); at < len(lines); at += 8 + r.IntN(6) {
			c := change{at: at, n: r.IntN(min(3, len(lines)-at)), new: some(r.IntN(3))}
			if strings.Join(lines[at:at+c.n], "\n") != strings.Join(c.new, "\n") || c.n != len(c.new) {
				changes = append(changes, c)
			}
		}
		if len(changes) == 0 {
			continue
		}
		ends := []string{"\n", "\r\n"}[r.IntN(2)]
		write := func(lines []string) string { return strings.Join(append(lines, ""), ends) }
		diff := diffOf(lines, changes, r.IntN(4))
		files := map[string]string{"f": write(lines)}
		set, err := callset.Of("", "apply_patch", `{"patch":`+quote(diff)+`}`)
		require.NoError(t, err, diff)
		all, note, err := set.Calls(in(files))
		require.NoError(t, err, "%s\n%s", diff, files["f"])
		require.Empty(t, note)
		made(t, all, files)
		want := write(changed(lines, changes))
		require.Equal(t, want, files["f"], diff)
	}
}
