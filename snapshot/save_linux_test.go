package snapshot_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/snapshot"
)

// TestSaveSaysWhereItCannotSave saves to places of every kind.
func TestSaveSaysWhereItCannotSave(t *testing.T) {
	a := savedAgent(t)
	base := t.TempDir()
	t.Chdir(base)
	full, ro := filepath.Join(base, "full"), filepath.Join(base, "ro")
	for dir, data := range map[string]string{full: "size=64k", ro: "ro"} {
		require.NoError(t, os.Mkdir(dir, 0o700))
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, data); err != nil {
			t.Skip("only root can mount a small file system:", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	}
	require.NoError(t, os.WriteFile("file", []byte("mine"), 0o600))
	require.NoError(t, os.Mkdir("real", 0o700))
	for name, to := range map[string]string{"to-dir": "real", "to-work": testkit.HostDir(t, a), "to-nothing": filepath.Join(base, "nothing"), "to-file": "file"} {
		require.NoError(t, os.Symlink(to, name))
	}
	require.NoError(t, a.Runtime().WriteFile(t.Context(), "large", []byte(strings.Repeat("x", 200_000))))
	before := testkit.TreeOf(t, base)
	for name, c := range map[string]struct {
		dir  string
		is   error
		want string
	}{
		"a full disk":                   {full + "/snap", syscall.ENOSPC, "no space left on device"},
		"a read-only disk":              {ro + "/snap", syscall.EROFS, "read-only file system"},
		"the workspace":                 {testkit.HostDir(t, a), nil, "commands can change it"},
		"below the workspace":           {testkit.HostDir(t, a) + "/a/b", nil, "commands can change it"},
		"the workspace by a link":       {"to-work", nil, "commands can change it"},
		"below the workspace by a link": {"to-work/snap", nil, "commands can change it"},
		"a file":                        {"file", snapshot.ErrExists, "it exists already"},
		"below a file":                  {"file/snap", syscall.ENOTDIR, "not a directory"},
		"a link to a file":              {"to-file", snapshot.ErrExists, "it exists already"},
		"a link to a directory":         {"to-dir", snapshot.ErrExists, "it exists already"},
		"a link to nothing":             {"to-nothing", snapshot.ErrExists, "it exists already"},
		"the top":                       {"/", nil, "exist"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, opts := range [][]snapshot.SaveOption{nil, {snapshot.Replace()}} {
				_, err := snapshot.Save(t.Context(), a, c.dir, opts...)
				if c.is != nil && (opts == nil || c.is != snapshot.ErrExists) {
					require.ErrorIs(t, err, c.is)
				}
				require.ErrorContains(t, err, "save to "+c.dir+": ")
				if opts == nil {
					require.ErrorContains(t, err, c.want)
				}
			}
			require.Equal(t, before, testkit.TreeOf(t, base))
		})
	}
	s, err := snapshot.Save(t.Context(), a, "real/../snap") // relative
	require.NoError(t, err)
	require.Equal(t, filepath.Join(base, "snap"), s.Dir())
	_, err = snapshot.Save(t.Context(), a, "to-dir/snap")
	require.NoError(t, err)
	_, err = snapshot.Load(t.Context(), "real/snap")
	require.NoError(t, err)
	_, err = snapshot.Load(t.Context(), "to-dir/snap")
	require.NoError(t, err)
}

// A device in the place of any file of a snapshot is refused, and not read.
func TestDevicesInSnapshotsAreRefused(t *testing.T) {
	t.Parallel()
	a := savedAgent(t)
	for name, want := range map[string]string{
		"snapshot.json": "not a regular file", "files.jsonl": "not a regular file", "history.json": "history.json is no file, directory or link",
		"workspace/src/x.go": "x.go is no file, directory or link", "workspace/zero": "zero is no file, directory or link",
	} {
		dir := filepath.Join(t.TempDir(), "snap")
		_, err := snapshot.Save(t.Context(), a, dir)
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5); err != nil { // that of /dev/zero
			t.Skip("only root can make a device:", err)
		}
		_, err = snapshot.Load(t.Context(), dir)
		require.ErrorIs(t, err, snapshot.ErrDamaged, name)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
	}
}

// No secret of the configuration is in a snapshot, a session or its checkpoints.
func TestSecretsAreNotSaved(t *testing.T) {
	base := t.TempDir()
	t.Setenv("SECRET_OF_THE_PROGRAM", "hush-hush-0")
	c, err := pygent.ConfigSources{NoFiles: true, Lookup: func(string) (string, bool) { return "", false }, Overrides: map[string]string{
		"OPENAI_API_KEY": "sk-hush-1", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1?key=hush-5", "PYGENT_USE_DOCKER": "0",
		"TOKEN": "hush-6", "PYGENT_OPENAI_HEADERS": `{"X-Key":"hush-7"}`, "PYGENT_OPENAI_EXTRA_BODY": `{"user":"hush-8"}`,
		"PYGENT_LOG_FILE": filepath.Join(base, "log"), "PYGENT_MODEL": "m",
	}}.Load()
	require.NoError(t, err)
	a := testkit.NewAgent(t, append(c.Options(), sessions.Keep(filepath.Join(base, "sessions", "1abc")), checkpoint.Keep(filepath.Join(base, "trees")), pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 1}))...)
	_, err = a.RunUntilStop(t.Context(), "hello") // no server answers: the error is not kept either
	require.Error(t, err)
	_, err = snapshot.Save(t.Context(), a, filepath.Join(base, "snap"))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	found := testkit.TreeOf(t, base)
	require.Contains(t, found, "sessions/1abc/session.json")
	require.Contains(t, found, "snap/snapshot.json")
	require.Contains(t, found, "snap/history.json")
	for name, content := range found {
		require.NotContains(t, strings.ToLower(content), "hush", name)
	}
}
