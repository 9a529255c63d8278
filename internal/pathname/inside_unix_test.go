//go:build unix

package pathname_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
)

func TestFilesAreFoundWhereOthersWrite(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"ws/sub", "home"} {
		require.NoError(t, os.MkdirAll(at(dir), 0o755))
	}
	for name, to := range map[string]string{
		"link": "ws", "home/dir": "../ws/sub", "home/file": "../ws/sub/file", "home/late": "../ws/late", "home/past": "../ws/../home/x", // links of the user
		"ws/out": "../home", "ws/sub/file": "../../home/real", // links of somebody else
	} {
		require.NoError(t, os.Symlink(to, at(name)))
	}
	for path, want := range map[string]string{
		"ws/file":       "ws",
		"ws/sub/file":   "ws",
		"ws/out/file":   "ws",
		"ws/new/file":   "ws",
		"link/sub/x":    "link",
		"home/dir/new":  "ws",
		"home/dir/file": "ws",
		"home/file":     "ws",
		"home/late":     "ws",
		"home/past":     "",
		"home/x":        "",
		"new/x":         "",
		"home/../ws/x":  "ws",
	} {
		dir, name, err := pathname.Inside([]string{at("ws"), at("made")}, at(path))
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, dir, path)
			continue
		}
		require.Equal(t, at(want), dir, path)
		require.Contains(t, name, dir, path)
	}
}

func TestFilesAreOpenedWithoutFollowingLinksOut(t *testing.T) {
	top := t.TempDir()
	ws, outside := filepath.Join(top, "ws"), filepath.Join(top, "outside")
	require.NoError(t, os.MkdirAll(ws, 0o755))
	require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
	for name, to := range map[string]string{"file": outside, "dangling": filepath.Join(top, "new"), "dir": top} {
		require.NoError(t, os.Symlink(to, filepath.Join(ws, name)))
	}
	const flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	for _, name := range []string{"file", "dangling", "dir/outside", "dir/new"} {
		_, err := pathname.OpenInside([]string{ws}, filepath.Join(ws, name), flag, 0o600)
		require.Error(t, err, name)
	}
	require.NoFileExists(t, filepath.Join(top, "new"))
	f, err := pathname.OpenInside([]string{ws}, filepath.Join(ws, "log"), flag, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f, err = pathname.OpenInside([]string{ws}, filepath.Join(top, "log"), flag, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
