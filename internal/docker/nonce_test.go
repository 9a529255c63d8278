package docker

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tempname"
)

// TestStartRemovesOldProbes leaves in a workspace what processes left that were killed
// while their containers started, and what only looks like it.
func TestStartRemovesOldProbes(t *testing.T) {
	dir := t.TempDir()
	leave := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(name), 0o644))
		return path
	}
	probe := func() string { return tempname.Prefix + rand.Text() }
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	living, err := tempname.Create(root, ".", 0o600)
	require.NoError(t, err)
	notes := "notes"
	removed := leave(probe())
	kept := []string{
		filepath.Join(dir, living.Name()),         // another process may be starting a container
		leave(".pygent-1y2p0ij32e8e71y2p0ij32e8"), // which is another file of ours
		leave(notes),                        // whose name is none of ours
		filepath.Join(dir, probe()),         // a link
		filepath.Join(dir, probe(), "file"), // a directory
	}
	require.NoError(t, os.Symlink(notes, kept[3]))
	require.NoError(t, os.Mkdir(filepath.Dir(kept[4]), 0o700))
	require.NoError(t, os.WriteFile(kept[4], nil, 0o600))

	p := place{dir: dir}
	remove, err := p.leaveNonce()
	require.NoError(t, err)
	require.NoFileExists(t, removed)
	require.FileExists(t, filepath.Join(dir, p.nonce))
	require.NoError(t, remove())
	require.NoFileExists(t, filepath.Join(dir, p.nonce))
	for _, path := range kept {
		require.FileExists(t, path)
	}
}
