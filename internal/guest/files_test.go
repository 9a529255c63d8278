package guest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/tree"
)

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func readFile(t testing.TB, c *guest.Client, name string) string {
	t.Helper()
	var b bytes.Buffer
	_, err := c.ReadFile(context.Background(), name, &b, 0, -1)
	require.NoError(t, err)
	return b.String()
}

func TestFilesAreWrittenAndRead(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		ctx := context.Background()
		require.NoError(t, c.WriteFile(ctx, "a/b/c.txt", strings.NewReader("hello"), 0))
		require.Equal(t, "hello", output(run(t, c, "cat a/b/c.txt")))
		run(t, c, "chmod 755 a/b/c.txt")
		require.NoError(t, c.WriteFile(ctx, "a/b/c.txt", strings.NewReader("0123456789"), 0o600))
		info, err := c.Stat(ctx, "a/b/c.txt")
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o755), info.Mode, "an existing file keeps its mode")
		require.EqualValues(t, 10, info.Size)

		var part bytes.Buffer
		info, err = c.ReadFile(ctx, "a/b/c.txt", &part, 3, 4)
		require.NoError(t, err)
		require.Equal(t, "3456", part.String())
		require.EqualValues(t, 10, info.Size)

		run(t, c, "ln -s b/c.txt a/link; echo x > a/other")
		require.NoError(t, c.WriteFile(ctx, "a/link", strings.NewReader("through"), 0))
		require.Equal(t, "through", readFile(t, c, "a/b/c.txt"))
		files, more, err := c.List(ctx, "a")
		require.NoError(t, err)
		require.False(t, more)
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		require.Equal(t, []string{"b", "link", "other"}, names)
		info, err = c.Stat(ctx, "a/link")
		require.NoError(t, err)
		require.Equal(t, "b/c.txt", info.Target)

		require.NoError(t, c.Mkdir(ctx, "new/dir"))
		require.NoError(t, c.Mkdir(ctx, "new/dir"))
		require.Error(t, c.Remove(ctx, "new", false))
		require.NoError(t, c.Remove(ctx, "new", true))
		_, err = c.Stat(ctx, "new")
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestFilesOutsideTheWorkspaceAreRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		ctx := context.Background()
		run(t, c, "ln -s /etc/passwd out; ln -s .. up; ln -s /etc dir; mkfifo pipe; ln -s loop loop")
		for _, name := range []string{"../x", "/etc/passwd", "a/../../x", "out", "up/x", "dir/passwd"} {
			_, err := c.ReadFile(ctx, name, io.Discard, 0, -1)
			require.ErrorIs(t, err, guest.ErrEscapes, name)
			err = c.WriteFile(ctx, name, strings.NewReader("evil"), 0)
			require.ErrorIs(t, err, guest.ErrEscapes, name)
		}
		for _, name := range []string{"pipe", "."} {
			_, err := c.ReadFile(ctx, name, io.Discard, 0, -1)
			require.ErrorIs(t, err, guest.ErrNotRegular, name)
			require.ErrorIs(t, c.WriteFile(ctx, name, strings.NewReader(""), 0), guest.ErrNotRegular, name)
		}
		_, err := c.ReadFile(ctx, "loop", io.Discard, 0, -1)
		require.Error(t, err)
		_, err = c.Stat(ctx, "a\x00b")
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = c.ReadFile(ctx, "missing", io.Discard, 0, -1)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, c.Remove(ctx, ".", false), fs.ErrInvalid)
	})
}

// put copies a file or directory below from into a directory of the workspace.
func put(t *testing.T, c *guest.Client, from, name, dir string) error {
	_, err := c.Unpack(context.Background(), dir, func(w io.Writer) error {
		return tree.Pack(w, openRoot(t, from), name, tree.PackOptions{})
	})
	return err
}

// get copies a file or directory of the workspace into the directory to.
func get(t *testing.T, c *guest.Client, name, to string, limits tree.Limits) error {
	return c.Pack(context.Background(), name, func(r io.Reader) error {
		_, err := tree.Extract(r, openRoot(t, to), tree.ExtractOptions{Limits: limits})
		return err
	})
}

func TestDirectoriesAreUploadedAndExported(t *testing.T) {
	from := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "p/sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "p/run.sh"), []byte("#!/bin/sh\necho ran\n"), 0o755))
	random := make([]byte, 3<<20)
	_, _ = rand.Read(random)
	require.NoError(t, os.WriteFile(filepath.Join(from, "p/sub/data"), random, 0o640))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "p/link")))
	everywhere(t, func(t *testing.T, c *guest.Client) {
		require.NoError(t, put(t, c, from, "p", "into/here"))
		require.Equal(t, "ran\n", output(run(t, c, "into/here/run.sh")))
		to := t.TempDir()
		require.NoError(t, get(t, c, "into/here", to, tree.Limits{}))
		got, err := os.ReadFile(filepath.Join(to, "sub/data"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(random, got))
		target, err := os.Readlink(filepath.Join(to, "link"))
		require.NoError(t, err)
		require.Equal(t, "/etc/passwd", target)

		require.NoError(t, put(t, c, from, "p/run.sh", "single"))
		require.Equal(t, "ran\n", output(run(t, c, "single/run.sh")))
		require.ErrorIs(t, get(t, c, "into", to, tree.Limits{Bytes: 1000}), tree.ErrTooLarge)
		require.ErrorIs(t, get(t, c, "missing", to, tree.Limits{}), fs.ErrNotExist)
		require.ErrorIs(t, put(t, c, from, "missing", "x"), fs.ErrNotExist)
		require.Equal(t, "still fine\n", output(run(t, c, "echo still fine")))
	})
}

func TestUnpackRefusesHostileArchives(t *testing.T) {
	c := local(t)
	_, err := c.Unpack(context.Background(), "d", func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("not a tar archive ", 1_000_000))
		return err
	})
	require.Error(t, err)
	require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
}

// counter counts bytes.
type counter int64

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

func TestFilesBelongToTheOwnerOfTheWorkspace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 1234, 1235))
	c := localIn(t, dir, guest.Config{Own: true})
	ctx := context.Background()
	require.NoError(t, c.WriteFile(ctx, "a/b", strings.NewReader("x"), 0))
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "f"), nil, 0o644))
	require.NoError(t, put(t, c, from, ".", "up/loaded"))
	require.Equal(t, strings.Repeat("1234:1235\n", 5), output(run(t, c, "stat -c %u:%g a a/b up up/loaded up/loaded/f")))
	run(t, c, "mkdir made; echo x > made/f; ln -s /etc/passwd made/l")
	require.NoError(t, c.Own(ctx, "."))
	require.Equal(t, strings.Repeat("1234:1235\n", 3), output(run(t, c, "stat -c %u:%g made made/f made/l")))
	require.Equal(t, "0:0\n", output(run(t, c, "stat -c %u:%g /etc/passwd")))
}
