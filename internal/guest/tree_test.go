package guest_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/treedir"
)

// fillTree runs a script where the guest runs, that makes the tree of the tests.
func fillTree(t testing.TB, c *guest.Client) {
	t.Helper()
	r, err := c.Run(t.Context(), guest.Command{Script: `
		mkdir -p a/deep/er b many .git/objects && echo one > a/one && echo 'odd
name' > "$(printf 'a/odd\n\377 name')" && ln -s /etc/passwd a/link && mkfifo a/pipe &&
		echo er > a/deep/er/file && echo '*.log' > b/.gitignore && echo x > b/-early && : > empty &&
		i=0; while [ $i -lt 300 ]; do echo $i > many/f$i; i=$((i+1)); done`})
	require.NoError(t, err)
	require.Zero(t, r.ExitCode, "%s", r.Head)
}

func scan(t testing.TB, tree guest.Tree, skip ...string) (all []treedir.Entry) {
	t.Helper()
	require.NoError(t, tree.Scan(t.Context(), func(e treedir.Entry) error {
		all = append(all, e)
		if slices.Contains(skip, e.Name) {
			return fs.SkipDir
		}
		return nil
	}))
	return all
}

func namesOf(entries []treedir.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func TestAScanTellsWhatALocalOneTells(t *testing.T) {
	dir := t.TempDir()
	c := localIn(t, dir, guest.Config{})
	fillTree(t, c)
	l, err := treedir.OpenLocal(dir)
	require.NoError(t, err)
	defer l.Close()
	var want []treedir.Entry
	require.NoError(t, l.Scan(t.Context(), func(e treedir.Entry) error { want = append(want, e); return nil }))
	require.Equal(t, want, scan(t, guest.Tree{Client: c}))
	require.Contains(t, namesOf(want), "a/odd\n\xff name")
	for _, e := range want {
		require.Equal(t, e.Name == "b/-early", e.Ignores, e.Name)
	}
	var below []treedir.Entry
	require.NoError(t, guest.Tree{Client: c}.ScanBelow(t.Context(), "a/deep", func(e treedir.Entry) error { below = append(below, e); return nil }))
	require.Equal(t, []string{"a/deep/er", "a/deep/er/file"}, namesOf(below))
}

func TestTreesAreToldEverywhere(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		fillTree(t, c)
		tree := guest.Tree{Client: c}
		all := scan(t, tree)
		require.Len(t, all, 315)
		require.Equal(t, "/etc/passwd", all[slices.Index(namesOf(all), "a/link")].Target)

		left := namesOf(scan(t, tree, "many", "a", ".git"))
		require.Equal(t, []string{".git", "a", "b", "b/-early", "b/.gitignore", "empty", "many"}, left)

		var names []string
		for _, e := range all {
			names = append(names, e.Name)
		}
		names = append(names, "gone", "../outside", "a/one")
		contents := map[string]string{}
		var order []string
		require.NoError(t, tree.Read(t.Context(), slices.Values(names), func(name string, f treedir.Opened, err error) error {
			order = append(order, name)
			if err != nil {
				contents[name] = err.Error()
				if !slices.Contains([]string{"../outside"}, name) {
					require.ErrorIs(t, err, fs.ErrNotExist, name)
				}
				return nil
			}
			before, err := f.Stat()
			require.NoError(t, err)
			data, err := io.ReadAll(f)
			require.NoError(t, err)
			after, err := f.Stat()
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.Equal(t, int64(len(data)), after.Size)
			contents[name] = string(data)
			return nil
		}))
		require.Equal(t, names, order)
		require.Equal(t, "one\n", contents["a/one"])
		require.Equal(t, "", contents["empty"])
		require.Equal(t, "299\n", contents["many/f299"])
		require.Equal(t, "odd\nname\n", contents["a/odd\n\xff name"])
		require.Contains(t, contents["a/link"], "no regular file")
		require.Contains(t, contents["a/pipe"], "no regular file")
		require.Contains(t, contents["many"], "no regular file")
		require.NotContains(t, contents["../outside"], "root:")
	})
}

func TestAReaderNeedNotReadAll(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), []byte(strings.Repeat("0123456789abcdef", 1<<18)), 0o644))
	for i := range 3 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte("text"), 0o644))
	}
	tree := guest.Tree{Client: localIn(t, dir, guest.Config{})}
	names := []string{"f0", "large", "f1", "large", "f2"}
	var read []string
	require.NoError(t, tree.Read(t.Context(), slices.Values(names), func(name string, f treedir.Opened, err error) error {
		require.NoError(t, err)
		some := make([]byte, 4)
		_, err = io.ReadFull(f, some)
		require.NoError(t, err)
		read = append(read, name+string(some))
		return nil
	}))
	require.Equal(t, []string{"f0text", "large0123", "f1text", "large0123", "f2text"}, read)
	stop := errors.New("stop")
	require.ErrorIs(t, tree.Read(t.Context(), slices.Values(names), func(string, treedir.Opened, error) error { return stop }), stop)
	require.ErrorIs(t, tree.Scan(t.Context(), func(treedir.Entry) error { return stop }), stop)
	require.Len(t, scan(t, tree), 4)
}
