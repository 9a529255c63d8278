//go:build unix

package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSystemIsNoWorkspace(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/etc", link))
	for _, dir := range []string{"/", "/etc", "/usr/../var/", "//home", link} {
		require.ErrorContains(t, checkWorkspace(dir), "choose the directory of a project", dir)
	}
	for _, dir := range []string{"", ".", t.TempDir(), "/etc/nginx", "/home/user", "/srv", "/tmp"} {
		require.NoError(t, checkWorkspace(dir), dir)
	}
	t.Chdir("/")
	require.Error(t, checkWorkspace("."))
}
