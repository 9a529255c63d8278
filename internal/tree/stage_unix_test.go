//go:build unix

package tree_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
)

// TestStagesOfTheDeadAreRemoved makes a stage that is in use, a stage whose
// process was killed, and a directory that only looks like a stage.
func TestStagesOfTheDeadAreRemoved(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "f"), []byte("x"), 0o600))
	archive := &bytes.Buffer{}
	source, err := os.OpenRoot(from)
	require.NoError(t, err)
	defer source.Close()
	require.NoError(t, tree.Pack(archive, source, ".", tree.PackOptions{}))
	root, err := os.OpenRoot(to)
	require.NoError(t, err)
	defer root.Close()

	const dead = ".pygent-stage-1y2p0ij32e8e71y2p0ij32e8e7"
	kept := []string{".pygent-stage-", ".pygent-stage-mine", dead + "-old", ".pygent-stage-1Y2P0IJ32E8E71Y2P0IJ32E8E7"}
	for _, name := range append(kept, dead, dead+"/closed", "below", "below/"+dead) {
		require.NoError(t, os.Mkdir(filepath.Join(to, name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(to, dead, "closed", "f"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(to, dead, "closed"), 0))
	file, link, users := dead[:len(dead)-1], dead[:len(dead)-2], dead[:len(dead)-3]
	require.NoError(t, os.Mkdir(filepath.Join(to, users), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(to, users), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(to, file), nil, 0o600))
	require.NoError(t, os.Symlink(from, filepath.Join(to, link)))
	staged, err := tree.Stage(archive, root, tree.ExtractOptions{})
	require.NoError(t, err)

	require.NoError(t, tree.RemoveStages(root))
	require.NoDirExists(t, filepath.Join(to, dead))
	for _, name := range append(kept, "below/"+dead, file, link, users) {
		_, err := os.Lstat(filepath.Join(to, name))
		require.NoError(t, err, name)
	}
	require.FileExists(t, filepath.Join(from, "f"))
	require.NoError(t, staged.Commit())
	require.FileExists(t, filepath.Join(to, "f"))
	left, err := filepath.Glob(filepath.Join(to, ".pygent-stage-*"))
	require.NoError(t, err)
	require.Len(t, left, len(kept)+3)
}
