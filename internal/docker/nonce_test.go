package docker

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/transient"
)

// TestStartRemovesOldProbes leaves in a workspace what processes left that were killed
// while their containers started, and what only looks like it.
func TestStartRemovesOldProbes(t *testing.T) {
	dir := t.TempDir()
	leave := func(name, content string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	probe := func() string { return transient.Prefix + rand.Text() }
	old, young, notes, others := probe(), probe(), probe(), "notes"
	removed := leave(old, old, 2*nonceTime)
	kept := []string{
		leave(young, young, 0),              // another process may be starting a container
		leave(notes, "notes", 2*nonceTime),  // which is another file of ours
		leave(others, others, 2*nonceTime),  // whose name is none of ours
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
