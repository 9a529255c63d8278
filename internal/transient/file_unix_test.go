//go:build unix

package transient_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/transient"
)

// filesBelow lists what is in a directory.
func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// TestSweepRemovesWhatAKilledProcessLeft lets a process die while it writes files.
func TestSweepRemovesWhatAKilledProcessLeft(t *testing.T) {
	if dir := os.Getenv("PYGENT_TEST_TRANSIENT"); dir != "" {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		for _, at := range []string{".", "sub/dir"} {
			f, err := transient.Create(root, at, 0o600)
			require.NoError(t, err)
			_, err = f.WriteString("half")
			require.NoError(t, err)
		}
		me, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, me.Kill())
		select {}
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub/dir"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	mine, err := transient.Create(root, "sub", 0o600)
	require.NoError(t, err)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSweepRemovesWhatAKilledProcessLeft$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_TRANSIENT="+dir)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), "FAIL")
	require.Len(t, filesBelow(t, dir), 5)
	require.Len(t, transient.Left(root), 2, "the marker of a process that lives is not left")

	transient.Sweep(root)
	require.Len(t, filesBelow(t, dir), 2)
	_, err = mine.WriteString("whole")
	require.NoError(t, err)
	require.NoError(t, mine.Become("sub/file"))
	require.Equal(t, []string{"sub/file"}, filesBelow(t, dir))
	other, err := transient.Create(root, ".", 0o600)
	require.NoError(t, err)
	require.NoError(t, other.Remove())
	require.Equal(t, []string{"sub/file"}, filesBelow(t, dir))
}

// TestSweepLeavesWhatIsBeingMade sweeps all the time while files are written.
func TestSweepLeavesWhatIsBeingMade(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	written := make(chan struct{})
	defer close(written)
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					transient.Sweep(root)
				}
			}
		})
	}
	for range 500 {
		for _, at := range []string{".", "sub"} {
			f, err := transient.Create(root, at, 0o600)
			require.NoError(t, err)
			require.NoError(t, f.Become(filepath.Join(at, "file")))
		}
	}
}

func TestSweepLeavesWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	const made = ".pygent-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for name, content := range map[string]string{
		"notes": "x", ".pygent-notes": "x", ".pygent-0123456789abcdef01234567": "what a restore has moved aside", ".git/config": "x",
		made:                                 ".git/config",
		".pygent-BBCDEFGHIJKLMNOPQRSTUVWXYZ": "../" + made,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink("notes", filepath.Join(dir, ".pygent-CBCDEFGHIJKLMNOPQRSTUVWXYZ")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	transient.Sweep(root)
	require.Equal(t, []string{".git/config", ".pygent-0123456789abcdef01234567", ".pygent-CBCDEFGHIJKLMNOPQRSTUVWXYZ", ".pygent-notes", "notes"}, filesBelow(t, dir))
	require.Error(t, transient.RemoveLeft(root, "notes"))
}
