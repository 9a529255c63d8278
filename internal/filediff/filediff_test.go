package filediff_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filediff"
)

// workspace has the files of each directory.
type workspace map[string][]filediff.File

func (w workspace) list(_ context.Context, dir string, limit int) ([]filediff.File, bool, error) {
	files, ok := w[dir]
	if !ok {
		return nil, false, errors.New("no such directory")
	}
	return files[:min(limit, len(files))], len(files) > limit, nil
}

func file(name string, size int64) filediff.File {
	return filediff.File{Path: name, Size: size, Time: time.Unix(size, 0)}
}

func dir(name string) filediff.File { return filediff.File{Path: name, Dir: true} }

func take(t *testing.T, w workspace) filediff.Inventory {
	return filediff.Take(t.Context(), w.list)
}

// texts returns what is told, as texts.
func texts(told filediff.Told) (texts []string) {
	for _, c := range told.Changes {
		texts = append(texts, strings.TrimSpace(string(c.Kind)+" "+c.Path))
	}
	return texts
}

func TestFilesThatDifferComeFirst(t *testing.T) {
	before := workspace{".": {file("a", 1), file("b", 2), file("gone", 3), dir("d"), dir(".git")}, "d": {file("d/x", 4)}, ".git": {file(".git/HEAD", 1)}}
	touched := file("d/x", 4)
	touched.Time = time.Unix(99, 0)
	after := workspace{".": {file("a", 1), file("b", 9), file("new", 3), dir("d")}, "d": {touched, file("d/y", 1)}}
	told := take(t, after).Since(take(t, before), 10)
	require.Equal(t, []string{"changed b", "new new", "changed d/x", "new d/y", "removed gone", "a"}, texts(told))
	require.Zero(t, told.More)
	require.False(t, told.Partial)
	told = take(t, after).Since(take(t, before), 2)
	require.Equal(t, []string{"changed b", "new new"}, texts(told))
	require.Equal(t, 4, told.More)

	told = take(t, after).Differing(take(t, before), 4)
	require.Equal(t, []string{"changed b", "new new", "changed d/x", "new d/y"}, texts(told))
	require.Equal(t, 1, told.More, "what is the same does not count")
	require.False(t, told.Partial)
	require.Empty(t, texts(take(t, after).Differing(take(t, after), 4)))
	require.True(t, take(t, after).Differing(filediff.Inventory{}, 4).Partial, "nothing is known of before")
}

func TestNothingIsNewIfItsPlaceWasNotKnown(t *testing.T) {
	after := take(t, workspace{".": {file("a", 1), dir("d"), dir("e")}, "d": {file("d/a", 1)}, "e": {file("e/a", 1), dir("e/f")}, "e/f": {file("e/f/a", 1)}})
	require.Equal(t, []string{"a", "d/a", "e/a", "e/f/a"}, texts(after.Since(filediff.Inventory{}, 10)))
	before := take(t, workspace{".": {dir("d")}}) // which cannot be read
	require.Equal(t, []string{"new a", "new e/a", "new e/f/a", "d/a"}, texts(after.Since(before, 10)))
	told := after.Differing(before, 10)
	require.Equal(t, []string{"new a", "new e/a", "new e/f/a"}, texts(told))
	require.True(t, told.Partial)
	require.Equal(t, []string{"removed a", "removed e/a", "removed e/f/a"}, texts(before.Differing(after, 10)))
}

func TestNothingIsRemovedThatIsNotLookedFor(t *testing.T) {
	after := take(t, workspace{".": {file("a", 1)}})
	require.True(t, after.Looked())
	require.False(t, filediff.Inventory{}.Looked())
	told := filediff.Inventory{}.Since(after, 10)
	require.Empty(t, told.Changes)
	require.True(t, told.Partial)
}

func TestALookIsBounded(t *testing.T) {
	w := workspace{}
	for i := range 10_000 {
		w["."] = append(w["."], file(fmt.Sprint(i), 1))
	}
	told := take(t, w).Since(filediff.Inventory{}, 30)
	require.Len(t, told.Changes, 30)
	require.Equal(t, 4970, told.More)
	require.True(t, told.Partial)

	opened := 0
	filediff.Take(t.Context(), func(_ context.Context, at string, _ int) ([]filediff.File, bool, error) {
		opened++
		return []filediff.File{dir("d"), dir("e")}, false, nil // without end
	})
	require.Less(t, opened, 1000)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, filediff.Take(ctx, w.list).Since(filediff.Inventory{}, 30).Partial)
}

func TestNamesStayWhereTheyWereFound(t *testing.T) {
	inv := take(t, workspace{".": {file("../../etc/passwd", 1), file("x/../y", 1), file("..", 1), dir(".."), file(".pygent-3BYCXW6BPZ2LJQAVN7YDKHM5TE", 1), file(strings.Repeat("n", 2000), 1)}})
	told := inv.Since(take(t, workspace{".": nil}), 10)
	require.Equal(t, []string{"new passwd", "new y"}, texts(told))
	require.True(t, told.Partial)
}
