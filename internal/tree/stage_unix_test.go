//go:build unix

package tree_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/tree"
)

// killedStage makes in dir what a process leaves that is killed before its tree
// is complete. Closed directories are among it.
func killedStage(t *testing.T, dir string, archive []byte) (name string) {
	t.Helper()
	from := t.TempDir()
	root, err := os.OpenRoot(from)
	require.NoError(t, err)
	defer root.Close()
	staged, err := tree.Stage(bytes.NewReader(archive), root, tree.ExtractOptions{})
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS(from))) // a copy is not locked
	require.NoError(t, staged.Discard())
	stages, err := filepath.Glob(filepath.Join(dir, ".pygent-stage-*"))
	require.NoError(t, err)
	require.Len(t, stages, 1)
	require.NoError(t, os.Chmod(stages[0], 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(stages[0], "tree", "closed", "in it"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(stages[0], "tree", "closed"), 0))
	return filepath.Base(stages[0])
}

// archiveOf returns the archive of a directory with a file.
func archiveOf(t *testing.T, file, content string) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	archive := &bytes.Buffer{}
	require.NoError(t, tree.Pack(archive, root, ".", tree.PackOptions{}))
	return archive.Bytes()
}

// TestStagesOfTheDeadAreRemoved makes a stage that is in use, a stage whose
// process was killed, and directories that only look like one.
func TestStagesOfTheDeadAreRemoved(t *testing.T) {
	elsewhere, to := t.TempDir(), t.TempDir()
	archive := archiveOf(t, "f", "x")
	root, err := os.OpenRoot(to)
	require.NoError(t, err)
	defer root.Close()

	dead := killedStage(t, to, archive)
	mark, err := os.ReadFile(filepath.Join(to, dead, "made-by-pygent"))
	require.NoError(t, err)
	const number = ".pygent-stage-1y2p0ij32e8e71y2p0ij32e8e7"
	open, other, linked := number[:len(number)-1], number[:len(number)-2], number[:len(number)-3]
	kept := []string{".pygent-stage-", ".pygent-stage-mine", number, number + "-old", ".pygent-stage-1Y2P0IJ32E8E71Y2P0IJ32E8E7", "below", "below/" + dead, other, open}
	for _, name := range kept {
		require.NoError(t, os.Mkdir(filepath.Join(to, name), 0o700))
		content := strings.ReplaceAll(string(mark), dead, name)
		switch name {
		case number: // somebody's own
			content = "mine"
		case other: // a copy
			content = string(mark)
		case open:
			require.NoError(t, os.Chmod(filepath.Join(to, name), 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(to, name, "made-by-pygent"), []byte(content), 0o600))
	}
	cut, begun, full := number[:len(number)-5], number[:len(number)-6], number[:len(number)-7]
	for name, length := range map[string]int{cut: 20, begun: 0, full: 20} { // killed while they wrote the mark
		require.NoError(t, os.Mkdir(filepath.Join(to, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(to, name, "made-by-pygent"), mark[:length], 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(to, full, "mine"), nil, 0o600))
	kept = append(kept, full)
	file := number[:len(number)-4]
	require.NoError(t, os.WriteFile(filepath.Join(to, file), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "made-by-pygent"), []byte(strings.ReplaceAll(string(mark), dead, linked)), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(to, linked)))
	staged, err := tree.Stage(bytes.NewReader(archive), root, tree.ExtractOptions{})
	require.NoError(t, err)

	require.NoError(t, tree.RemoveStages(t.Context(), root))
	for _, name := range []string{dead, cut, begun} {
		require.NoDirExists(t, filepath.Join(to, name))
	}
	for _, name := range append(kept, file, linked) {
		_, err := os.Lstat(filepath.Join(to, name))
		require.NoError(t, err, name)
	}
	require.FileExists(t, filepath.Join(elsewhere, "made-by-pygent"))
	require.NoError(t, errOf(staged.Commit()))
	require.FileExists(t, filepath.Join(to, "f"))
	left, err := filepath.Glob(filepath.Join(to, ".pygent-stage-*"))
	require.NoError(t, err)
	require.Len(t, left, len(kept)-2+2)
}

// endsAfter is a context that ends when it was asked a number of times.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestTheRemovalOfStagesEndsWithItsContext(t *testing.T) {
	to := t.TempDir()
	root, err := os.OpenRoot(to)
	require.NoError(t, err)
	defer root.Close()
	for asked := range 5 {
		stage := killedStage(t, to, tarOf(t, file("d/f", "x"), file("d/g", "y"), file("e", "z")))
		require.ErrorIs(t, tree.RemoveStages(&endsAfter{t.Context(), asked}, root), context.Canceled)
		require.DirExists(t, filepath.Join(to, stage))
		require.NoError(t, tree.RemoveStages(t.Context(), root))
		require.NoDirExists(t, filepath.Join(to, stage), "what is left is known for a stage")
	}
}

// Nobody knows the names in a stage.
func TestErrorsOfATreeThatIsPlacedNameItsFiles(t *testing.T) {
	to := t.TempDir()
	root, err := os.OpenRoot(to)
	require.NoError(t, err)
	defer root.Close()
	staged, err := tree.Stage(bytes.NewReader(tarOf(t, file("d/f", "x"))), root, tree.ExtractOptions{})
	require.NoError(t, err)
	dirs, err := filepath.Glob(filepath.Join(to, ".pygent-stage-*", "*", "d"))
	require.NoError(t, err)
	require.Len(t, dirs, 1)
	require.NoError(t, os.RemoveAll(filepath.Dir(dirs[0])))
	err = errOf(staged.Commit())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, err.Error(), ".pygent")
}

// TestOnlyStagesAreLeftOutOfCopies packs a stage, and a directory of a similar
// name.
func TestOnlyStagesAreLeftOutOfCopies(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	stage := killedStage(t, from, archiveOf(t, "f", "x"))
	require.NoError(t, os.Mkdir(filepath.Join(from, ".pygent-stage-mine"), 0o700))
	source, err := os.OpenRoot(from)
	require.NoError(t, err)
	defer source.Close()
	archive := &bytes.Buffer{}
	require.NoError(t, tree.Pack(archive, source, ".", tree.PackOptions{}))
	root, err := os.OpenRoot(to)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, extract(archive, root, tree.ExtractOptions{}))
	require.NoDirExists(t, filepath.Join(to, stage))
	require.DirExists(t, filepath.Join(to, ".pygent-stage-mine"))
	require.NoError(t, tree.RemoveStages(t.Context(), source)) // so that the directory can be removed
}

// TestAPipeIsNoMarkOfAStage has a pipe to which somebody may write in the place
// of a mark. Nobody waits for what comes out of it.
func TestAPipeIsNoMarkOfAStage(t *testing.T) {
	const name = ".pygent-stage-1y2p0ij32e8e71y2p0ij32e8e7"
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	mark := filepath.Join(dir, name, "made-by-pygent")
	require.NoError(t, unix.Mkfifo(mark, 0o600))
	writer, err := os.OpenFile(mark, os.O_RDWR, 0)
	require.NoError(t, err)
	defer writer.Close()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- errors.Join(tree.RemoveStages(t.Context(), root), tree.Pack(io.Discard, root, ".", tree.PackOptions{}))
	}()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("somebody waits for the pipe")
	}
	require.DirExists(t, filepath.Join(dir, name))
}

// TestTheNextCopyRemovesTheStageOfAKilledOne has the stage in a subdirectory, where
// nobody else looks for it.
func TestTheNextCopyRemovesTheStageOfAKilledOne(t *testing.T) {
	to := t.TempDir()
	archive := archiveOf(t, "f", "x")
	require.NoError(t, os.Mkdir(filepath.Join(to, "d"), 0o700))
	dead := killedStage(t, filepath.Join(to, "d"), archive)
	root := openRoot(t, to)
	live, err := tree.Stage(bytes.NewReader(archive), root, tree.ExtractOptions{Into: "d"})
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(to, "d", dead))
	require.NoError(t, extract(bytes.NewReader(archive), root, tree.ExtractOptions{Into: "d/new"}))
	require.NoError(t, errOf(live.Commit()), "it was in use")
	require.Equal(t, []string{"d", "d/f", "d/new", "d/new/f"}, namesBelow(t, root))
}

func TestErrorsNameTheFileAndNotItsPlaceInTheStage(t *testing.T) {
	root := openRoot(t, t.TempDir())
	err := extract(bytes.NewReader(tarOf(t, file("d/"+strings.Repeat("n", 300), ""))), root, tree.ExtractOptions{})
	require.ErrorIs(t, err, unix.ENAMETOOLONG)
	require.NotContains(t, err.Error(), "stage")
	require.Contains(t, err.Error(), `unpack "d/nnn`)
	require.Empty(t, namesBelow(t, root))
}
