package workspace_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/workspace"
)

func TestTemporaryWorkspaceTellsItsOwner(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := workspace.MakeTemp(false)
	require.NoError(t, err)
	name, ok := workspace.OwnerOf(filepath.Dir(dir))
	require.True(t, ok)
	require.Equal(t, owner.Current(), name)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o500))
	require.NoError(t, workspace.RemoveTemp(dir))
	require.NoDirExists(t, filepath.Dir(dir))
}

func TestOnlyWhatWasNeverFinishedIsAbandoned(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		files map[string]string
		age   time.Time
		want  bool
	}{
		"empty":                {nil, old, true},
		"an owner not written": {map[string]string{"owner": ""}, old, true},
		"being made":           {nil, time.Now(), false},
		"an owner":             {map[string]string{"owner": "x"}, old, false},
		"another file":         {map[string]string{"mine": ""}, old, false},
		"two files":            {map[string]string{"owner": "", "mine": ""}, old, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pygent-1")
			require.NoError(t, os.Mkdir(dir, 0o700))
			for file, content := range tt.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
			}
			require.NoError(t, os.Chtimes(dir, tt.age, tt.age))
			require.Equal(t, tt.want, workspace.Abandoned(dir))
			_, owned := workspace.OwnerOf(dir)
			if err := workspace.RemoveStale(dir); tt.want || owned {
				require.NoError(t, err)
				require.NoDirExists(t, dir)
			} else {
				require.Error(t, err)
				require.DirExists(t, dir)
			}
		})
	}
}
