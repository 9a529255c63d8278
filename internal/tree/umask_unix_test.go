//go:build unix

package tree_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
)

// TestTheUmaskForbidsWriting unpacks an archive with files that everybody may
// write, which a hostile container could send.
func TestTheUmaskForbidsWriting(t *testing.T) {
	for _, tt := range []struct {
		umask           int
		open            bool
		dir, file, tool os.FileMode
	}{
		{0o022, false, 0o755, 0o644, 0o755},
		{0o077, false, 0o755, 0o644, 0o755}, // the umask does not restrict reading
		{0o002, false, 0o775, 0o664, 0o775},
		{0, false, 0o777, 0o666, 0o777},
		{0o022, true, 0o777, 0o666, 0o777},
	} {
		t.Run(fmt.Sprintf("%03o %t", tt.umask, tt.open), func(t *testing.T) {
			defer syscall.Umask(syscall.Umask(tt.umask))
			archive := tarOf(t,
				entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o777}},
				entry{tar.Header{Name: "dir/file", Mode: 0o666}, "text"},
				entry{tar.Header{Name: "dir/tool", Mode: 0o777}, "text"},
				entry{tar.Header{Name: "dir/private", Mode: 0o600}, "text"},
				entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "there/", Mode: 0o777}})
			to := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(to, "there"), 0o700))
			require.NoError(t, extract(bytes.NewReader(archive), openRoot(t, to), tree.ExtractOptions{Open: tt.open}))
			for name, want := range map[string]os.FileMode{
				"dir": tt.dir, "dir/file": tt.file, "dir/tool": tt.tool, "dir/private": 0o600, "there": tt.dir,
			} {
				info, err := os.Stat(filepath.Join(to, name))
				require.NoError(t, err)
				require.Equal(t, want, info.Mode().Perm(), name)
			}
		})
	}
}
