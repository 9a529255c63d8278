package testkit

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// HostDir returns the directory of this machine with an agent's workspace.
func HostDir(t testing.TB, a *pygent.Agent) string {
	t.Helper()
	d, ok := pygent.RuntimeAs[pygent.Describer](a.Runtime())
	require.True(t, ok)
	return d.Describe(t.Context()).HostDir
}

// NamesIn returns the names of what is in a directory, in their order.
func NamesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// WriteFiles writes files below a directory of this machine. Those in scripts/ can be run.
func WriteFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		mode := os.FileMode(0o644)
		if strings.Contains(name, "scripts/") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
}

// TreeOf describes everything below a directory by its path: its mode, and what a file
// holds or where a link leads.
func TreeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		}
		rel, _ := filepath.Rel(dir, path)
		if rel != "." {
			all[rel] = info.Mode().String() + " " + content
		}
		return err
	}))
	return all
}

// JSON returns a value as JSON.
func JSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
