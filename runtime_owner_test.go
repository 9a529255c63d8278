//go:build unix

package pygent_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownerOf returns the owner of a file as "uid:gid".
func ownerOf(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(name)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
}

// tarOf returns an archive of one file.
func tarOf(t *testing.T, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: filepath.Base(name), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b
}
