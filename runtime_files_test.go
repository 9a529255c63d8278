package pygent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

func TestRuntimeListsFiles(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		lister := r.(pygent.FileLister)
		bash(t, r, `mkdir -p a/b/c d; echo hello >a/f; echo x >a/b/c/deep; ln -s /etc out; ln -s a link; mkfifo pipe; printf x >"$(printf 'odd\nname')"`)
		paths := func(dir string, depth, limit int) (list []string, more bool) {
			files, more, err := lister.ListFiles(t.Context(), dir, depth, limit)
			require.NoError(t, err)
			for _, f := range files {
				list = append(list, f.Path)
			}
			return list, more
		}
		top, more := paths(".", 1, 0)
		require.False(t, more)
		require.Equal(t, []string{"a", "d", "link", "odd\nname", "out", "pipe"}, top)
		alone, _ := paths(".", 0, 0)
		require.Equal(t, top, alone)
		all, more := paths("", pygent.NoLimit, 0)
		require.False(t, more)
		require.Equal(t, []string{"a", "a/b", "a/b/c", "a/b/c/deep", "a/f", "d", "link", "odd\nname", "out", "pipe"}, all)
		inside, _ := paths(workspaceOf(t, r)+"/a", 2, 0)
		require.Equal(t, []string{"a/b", "a/b/c", "a/f"}, inside)
		some, more := paths(".", pygent.NoLimit, 3)
		require.True(t, more)
		require.Equal(t, []string{"a", "d", "link"}, some)

		f, err := lister.StatFile(t.Context(), "a/f")
		require.NoError(t, err)
		require.Equal(t, "a/f", f.Path)
		require.EqualValues(t, 6, f.Size)
		require.True(t, f.Mode.IsRegular())
		require.False(t, f.ModTime.IsZero())
		link, err := lister.StatFile(t.Context(), "out")
		require.NoError(t, err)
		require.Equal(t, "/etc", link.Target)
		require.NotZero(t, link.Mode&fs.ModeSymlink)

		for path, want := range map[string]error{
			"none": fs.ErrNotExist, "out": pygent.ErrOutsideWorkspace, "../..": pygent.ErrOutsideWorkspace,
			"/etc": pygent.ErrOutsideWorkspace, "out/passwd": pygent.ErrOutsideWorkspace,
		} {
			_, _, err := lister.ListFiles(t.Context(), path, 1, 0)
			require.ErrorIs(t, err, want, path)
		}
		_, _, err = lister.ListFiles(t.Context(), "a/f", 1, 0)
		require.Error(t, err)
		_, _, err = lister.ListFiles(t.Context(), "pipe", 1, 0)
		require.Error(t, err)
		_, err = lister.StatFile(t.Context(), "out/passwd")
		require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)
	})
}

func TestRuntimeRemovesFiles(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		remove := r.(pygent.FileRemover).RemoveFile
		bash(t, r, `mkdir -p a/b empty; echo x >a/b/f; echo x >g; ln -s /etc out; ln -s a link`)
		require.NoError(t, remove(t.Context(), "g", false))
		require.NoError(t, remove(t.Context(), "empty", false))
		require.Error(t, remove(t.Context(), "a", false), "it is not empty")
		require.NoError(t, remove(t.Context(), "link", true))
		require.NoError(t, remove(t.Context(), "out", true), "the link goes, not what it names")
		require.Equal(t, "x\n", bash(t, r, "cat a/b/f").Output)
		require.NoError(t, remove(t.Context(), "a", true))
		require.ErrorIs(t, remove(t.Context(), "none", false), fs.ErrNotExist)
		bash(t, r, "ln -s /etc out; mkdir x; touch y")
		require.ErrorIs(t, remove(t.Context(), "out/passwd", true), pygent.ErrOutsideWorkspace)
		require.ErrorIs(t, remove(t.Context(), "/etc", true), pygent.ErrOutsideWorkspace)
		require.Error(t, remove(t.Context(), ".", false))
		require.NoError(t, remove(t.Context(), ".", true))
		require.Equal(t, "", bash(t, r, "ls -A").Output)
	})
}

func TestRuntimeStreamsFiles(t *testing.T) {
	t.Parallel()
	const size = pygent.MaxReadFile + 1
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		s := r.(pygent.FileStreamer)
		require.NoError(t, s.WriteFileFrom(t.Context(), "d/large", io.LimitReader(endlessX{}, size)))
		n, err := s.ReadFileTo(t.Context(), "d/large", 0, io.Discard)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		var end bytes.Buffer
		n, err = s.ReadFileTo(t.Context(), "d/large", size-3, &end)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		require.Equal(t, "xxx", end.String())
		n, err = s.ReadFileTo(t.Context(), "d/large", size+3, io.Discard)
		require.NoError(t, err)
		require.Zero(t, n)

		broken := errors.New("broken")
		require.NoError(t, r.WriteFile(t.Context(), "f", []byte("old")))
		err = s.WriteFileFrom(t.Context(), "f", io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
		data, err := r.ReadFile(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, "old", string(data))
		require.Equal(t, "d\nf\n", bash(t, r, "ls -A").Output, "nothing is left of it")

		ctx, cancel := context.WithCancel(t.Context())
		err = s.WriteFileFrom(ctx, "f", cancelling{cancel})
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.ReadFileTo(t.Context(), "f", 0, brokenWriter{broken})
		require.ErrorIs(t, err, broken)

		bash(t, r, "ln -s /etc out; mkfifo pipe")
		for path, want := range map[string]error{"none": fs.ErrNotExist, "out/passwd": pygent.ErrOutsideWorkspace, "../x": pygent.ErrOutsideWorkspace} {
			_, err := s.ReadFileTo(t.Context(), path, 0, io.Discard)
			require.ErrorIs(t, err, want, path)
		}
		for _, path := range []string{"pipe", "d"} {
			_, err := s.ReadFileTo(t.Context(), path, 0, io.Discard)
			require.Error(t, err, path)
		}
		require.ErrorIs(t, s.WriteFileFrom(t.Context(), "out/x", strings.NewReader("x")), pygent.ErrOutsideWorkspace)
		_, err = s.ReadFileTo(t.Context(), "f", -1, io.Discard)
		require.Error(t, err)
	})
}

type endlessX struct{}

func (endlessX) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// cancelling is an endless reader that cancels its context.
type cancelling struct{ cancel func() }

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestACopySaysWhichDirectoryIsInItsWay(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	writeFiles(t, from, map[string]string{"a": "a", "sub/b": "b"})
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "mkdir -p got/sub/b")
		err := rt.UploadFile(t.Context(), from, "got")
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, "got: sub/b: there is a directory in its place")
		require.Equal(t, "sub\n", bash(t, rt, "ls -A got").Output, "nothing else was copied")
	})
}
