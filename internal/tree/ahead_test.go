package tree_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/tree"
)

// wideTree makes a tree with more directories than are listed ahead, and returns all
// names in the order of a walk.
func wideTree(t *testing.T, dir string) (names []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	var fill func(name string, depth int)
	fill = func(name string, depth int) {
		for i := range 6 {
			sub := path.Join(name, fmt.Sprintf("%c%d", 'a'+random.IntN(3), i))
			require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
			names = append(names, sub)
			if depth < 4 && random.IntN(6) > 0 {
				fill(sub, depth+1)
			}
		}
		for i := range random.IntN(4) {
			file := path.Join(name, fmt.Sprintf("b%d.txt", i))
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o644))
			names = append(names, file)
		}
	}
	fill("", 1)
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
	return names
}

// settled fails the test if a walk has left a goroutine or an open file.
func settled(t *testing.T) {
	t.Helper()
	before, files := goleak.IgnoreCurrent(), openFiles(t)
	t.Cleanup(func() {
		require.LessOrEqual(t, openFiles(t), files) // the collector may have closed some of other tests
		goleak.VerifyNone(t, before)
	})
}

// openFiles returns how many files are open, where the system says that.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return len(entries)
}

func TestWalkVisitsAWideTreeInOrder(t *testing.T) {
	dir := t.TempDir()
	names := wideTree(t, dir)
	require.Greater(t, len(names), 500)
	below := func(name, of string) bool { return of != "" && strings.HasPrefix(name, of+"/") }
	for name, tt := range map[string]struct {
		skips func(i int) bool // the directory that is visited as the ith
		stops int              // after so many
	}{
		"all":                  {func(int) bool { return false }, len(names)},
		"the first half":       {func(int) bool { return false }, len(names) / 2},
		"one":                  {func(int) bool { return false }, 1},
		"with every third":     {func(i int) bool { return i%3 > 0 }, len(names)},
		"with none below":      {func(int) bool { return true }, len(names)},
		"with many, to a stop": {func(i int) bool { return i%5 > 0 }, 50},
	} {
		t.Run(name, func(t *testing.T) {
			settled(t)
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			var got, want []string
			skipped, visited := "", 0
			for _, name := range names {
				if below(name, skipped) || visited == tt.stops {
					continue
				}
				if want = append(want, name); tt.skips(visited) {
					skipped = name
				}
				visited++
			}
			stop := errors.New("stop")
			err = tree.Walk(root, func(e tree.Entry) error {
				n := len(got)
				if n == tt.stops {
					return stop
				}
				got = append(got, e.Name)
				now, err := e.Dir.Lstat(e.Base)
				require.NoError(t, err)
				require.True(t, os.SameFile(now, e.Info), e.Name)
				if e.Info.IsDir() && tt.skips(n) {
					return fs.SkipDir
				}
				return nil
			})
			if len(want) == tt.stops && tt.stops < len(names) {
				require.ErrorIs(t, err, stop)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestEntriesKnowWhatIsBesideThem(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"with/.gitignore", "with/sub/file", "without/file"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	got := map[string]bool{}
	require.NoError(t, tree.Walk(root, func(e tree.Entry) error {
		got[e.Name] = e.Beside(".gitignore")
		return nil
	}))
	require.Equal(t, map[string]bool{
		"with": false, "with/.gitignore": true, "with/sub": true, "with/sub/file": false, "without": false, "without/file": false,
	}, got)
}

// Others exchange directories for links that lead out, and for files, while they are
// listed ahead.
func TestWalkStaysInsideWhileDirectoriesAreReplaced(t *testing.T) {
	settled(t)
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "secret", "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret.txt"), nil, 0o644))
	const dirs = 60
	for i := range dirs {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("d%02d", i), "in", "deeper"), 0o755))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		random := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			name := filepath.Join(dir, fmt.Sprintf("d%02d", random.IntN(dirs)))
			if random.IntN(2) == 0 {
				name = filepath.Join(name, "in")
			}
			if os.Rename(name, name+".away") != nil {
				continue
			}
			if random.IntN(2) == 0 {
				_ = os.Symlink(outside, name)
			} else {
				_ = os.WriteFile(name, nil, 0o644)
			}
			_ = os.Remove(name)
			_ = os.Rename(name+".away", name)
		}
	}()
	defer func() { close(stop); <-stopped }()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for range 30 {
		last := []string{}
		require.NoError(t, tree.WalkPast(root, func(e tree.Entry) error {
			require.NotContains(t, e.Name, "secret")
			elements := strings.Split(e.Name, "/")
			require.Negative(t, slices.Compare(last, elements), "%v before %v", last, elements)
			last = elements
			return nil
		}, func(tree.Entry, error) error { return nil })) // it was a link just then
	}
}

func TestWalkListsDirectoriesThatAreLargeAndManyAhead(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of files")
	}
	settled(t)
	dir := t.TempDir()
	var want []string
	for i, count := range []int{3, 4200, 3} { // more than are described ahead
		large := fmt.Sprintf("large%d", i)
		require.NoError(t, os.Mkdir(filepath.Join(dir, large), 0o755))
		want = append(want, large)
		for n := range count {
			name := fmt.Sprintf("%s/f%04d", large, n)
			if n%100 == 0 {
				require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
				want = append(want, name, name+"/in")
				name += "/in"
			} else {
				want = append(want, name)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		}
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var got []string
	require.NoError(t, tree.Walk(root, func(e tree.Entry) error {
		got = append(got, e.Name)
		return nil
	}))
	require.Equal(t, want, got)
}
