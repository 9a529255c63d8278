package pygent_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

// write makes a tree of files. A name that ends in a slash is a directory; a
// content that begins with -> is a link.
func write(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for name, content := range tree {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case name[len(name)-1] == '/':
			require.NoError(t, os.MkdirAll(path, 0o755))
		case len(content) > 2 && content[:2] == "->":
			require.NoError(t, os.Symlink(content[2:], path))
		default:
			require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// read is the inverse of write, and adds the modes of files and directories.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		switch {
		case entry.IsDir():
			tree[name+"/"] = fmt.Sprintf("%o", info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			tree[name] = "->" + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			tree[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
		default:
			tree[name] = info.Mode().String()
		}
		return nil
	}))
	return tree
}

// seedAndChange lets a runtime's commands change a workspace in all ways, and
// checks the result after Cleanup.
func seedAndChange(t *testing.T, dir string, start func() pygent.Runtime) {
	write(t, dir, map[string]string{
		"kept": "kept", "changed": "old", "deleted": "x", "tool": "#!/bin/sh\necho tool\n", "empty/": "",
		"gone/deep/f": "f", "readonly/f": "f", "readonly/gone": "x", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir": "x", "dir-to-file/f": "x", "dir-to-link/f": "x", "link-to-dir": "->/etc", "link-to-file": "->kept",
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "tool"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "readonly"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "readonly"), 0o755) })

	r := start()
	require.Equal(t, "tool\n", bash(t, r, "./tool").Output)
	res := bash(t, r, `set -e
		echo new >changed; rm deleted; rm -r gone; chmod 600 kept; chmod u+w readonly; rm readonly/gone; chmod 555 readonly
		rm file-to-dir; mkdir file-to-dir; echo in >file-to-dir/in
		rm -r dir-to-file; echo now >dir-to-file
		rm -r dir-to-link; ln -s /tmp dir-to-link
		rm link-to-dir; mkdir link-to-dir; echo in >link-to-dir/in
		rm link-to-file; echo file >link-to-file
		mkdir -p made/private; chmod 700 made/private; echo '#!/bin/sh' >made/private/run; chmod 750 made/private/run; chmod 500 made/private
		ln kept hard; mkfifo pipe; printf '\0\377' >'odd name
'`)
	require.Zero(t, res.ExitCode, res.Output)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "of somebody else"), []byte("new"), 0o644))
	require.NoError(t, r.Cleanup())
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "made", "private"), 0o755) })
	require.Equal(t, map[string]string{
		"kept": "600 kept", "hard": "600 kept", "changed": "644 new\n", "tool": "755 #!/bin/sh\necho tool\n", "empty/": "755",
		"readonly/": "555", "readonly/f": "644 f", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir/": "755", "file-to-dir/in": "644 in\n", "dir-to-file": "644 now\n", "dir-to-link": "->/tmp",
		"link-to-dir/": "755", "link-to-dir/in": "644 in\n", "link-to-file": "644 file\n",
		"made/": "755", "made/private/": "500", "made/private/run": "750 #!/bin/sh\n", "odd name\n": "644 \x00\xff",
		"of somebody else": "644 new",
	}, read(t, dir))
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
