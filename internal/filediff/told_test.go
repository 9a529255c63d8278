package filediff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filediff"
)

// changes returns changes of files, each of the kind and the path that a text says.
func changes(texts ...string) (all []filediff.Change) {
	for _, text := range texts {
		kind, name, _ := strings.Cut(text, " ")
		all = append(all, filediff.Change{File: file(name, 2), Kind: filediff.Kind(kind)})
	}
	return all
}

func TestFilesAreTold(t *testing.T) {
	many := make([]filediff.Change, 30)
	for i := range many {
		many[i] = filediff.Change{File: file(fmt.Sprint("f", i), 1), Kind: filediff.New}
	}
	for name, tt := range map[string]struct {
		told        filediff.Told
		list, named string
	}{
		"none":        {filediff.Told{}, "", ""},
		"one":         {filediff.Told{Changes: changes("new a")}, "Files:\n- a (new, 2 bytes)", "a"},
		"of all":      {filediff.Told{Changes: changes("new a", "changed b", "removed c", " d")}, "Files:\n- a (new, 2 bytes)\n- b (changed, 2 bytes)\n- c (removed)\n- d (2 bytes)", "a, b"},
		"only gone":   {filediff.Told{Changes: changes("removed c")}, "Files:\n- c (removed)", ""},
		"others":      {filediff.Told{Changes: changes("new a"), More: 1}, "Files:\n- a (new, 2 bytes)\n- and 1 other file", "a and many others"},
		"others same": {filediff.Told{Changes: changes("new a", " b"), More: 1234}, "Files:\n- a (new, 2 bytes)\n- b (2 bytes)\n- and 1,234 other files", "a"},
		"not all":     {filediff.Told{Changes: changes("new a"), Partial: true}, "Files:\n- a (new, 2 bytes)\n- and perhaps more, not all was looked through", "a and perhaps others"},
		"six":         {filediff.Told{Changes: many[:6]}, "Files:\n- f0 (new, 1 byte)\n- f1 (new, 1 byte)\n- f2 (new, 1 byte)\n- f3 (new, 1 byte)\n- f4 (new, 1 byte)\n- f5 (new, 1 byte)", "f0, f1, f2, f3, f4 and 1 other"},
		"a strange":   {filediff.Told{Changes: changes("new a\nb")}, "Files:\n- \"a\\nb\" (new, 2 bytes)", `"a\nb"`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.list, tt.told.List("Files:"))
			require.Equal(t, tt.named, tt.told.Named())
		})
	}
}

func TestWhatIsToldOfFilesIsBounded(t *testing.T) {
	told := filediff.Told{}
	for i := range 30 {
		told.Changes = append(told.Changes, changes("new "+strings.Repeat("n", 900)+fmt.Sprint(i))...)
	}
	require.Less(t, len(told.List("Files:")), 1700)
	require.Contains(t, told.List("Files:"), "- and 29 other files")
	require.Less(t, len(told.Named()), 1100)
}
