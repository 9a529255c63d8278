//go:build unix

package snapshot_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/snapshot"
)

// fill writes what a snapshot has into a directory. All files say the same.
func fill(dir, says string, files int) error {
	work := filepath.Join(dir, snapshot.Workspace)
	if err := os.MkdirAll(filepath.Join(work, "d"), 0o777); err != nil {
		return err
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(work, "d", fmt.Sprint(i)), []byte(strings.Repeat(says, 50)), 0o666); err != nil {
			return err
		}
	}
	if err := os.Symlink("d/0", filepath.Join(work, "link")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, snapshot.History), []byte(says), 0o600)
}

// put makes a snapshot.
func put(ctx context.Context, dir, says string, files int, replace bool) error {
	d, err := snapshot.Begin(dir, replace)
	if err != nil {
		return err
	}
	if err = fill(d.Dir(), says, files); err == nil {
		_, err = d.Commit(ctx, snapshot.About{Saved: time.Unix(1, 0), Setup: json.RawMessage(`"` + says + `"`)})
	}
	if discarded := d.Discard(); err == nil {
		err = discarded
	}
	return err
}

func TestASnapshotIsWrittenAndRead(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "not", "there", "snap")
	require.NoError(t, put(t.Context(), dir, "one", 3, false))
	about, err := snapshot.Open(t.Context(), dir)
	require.NoError(t, err)
	require.JSONEq(t, `"one"`, string(about.Setup))
	require.EqualValues(t, 3, about.Contents.Files)
	require.EqualValues(t, 450, about.Contents.Bytes)
	require.EqualValues(t, 1, about.Contents.Links)
	require.ErrorIs(t, put(t.Context(), dir, "two", 3, false), snapshot.ErrExists)
	require.NoError(t, put(t.Context(), dir, "two", 2, true))
	about, err = snapshot.Open(t.Context(), dir)
	require.NoError(t, err)
	require.JSONEq(t, `"two"`, string(about.Setup))
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

func TestDraftsThatHadJustBegunAreRemoved(t *testing.T) {
	base := t.TempDir()
	const old, young, full, mine = ".pygent-stage-1y2p0ij32e8e71y2p", ".pygent-stage-1y2p0ij32e8e71y2q", ".pygent-stage-1y2p0ij32e8e71y2r", ".pygent-stage-mine"
	for _, name := range []string{old, young, full, mine} {
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(base, full, "file"), nil, 0o600))
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{old, full, mine} {
		require.NoError(t, os.Chtimes(filepath.Join(base, name), long, long))
	}
	require.NoError(t, put(t.Context(), filepath.Join(base, "snap"), "x", 1, false))
	var left []string
	entries, err := os.ReadDir(base)
	require.NoError(t, err)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{young, full, mine, "snap"}, left)
}

func TestWhatACommitFindsInItsPlaceStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	d, err := snapshot.Begin(dir, true)
	require.NoError(t, err)
	require.NoError(t, fill(d.Dir(), "x", 1))
	require.NoError(t, os.WriteFile(dir, []byte("mine"), 0o600))
	_, err = d.Commit(t.Context(), snapshot.About{Setup: json.RawMessage("{}")})
	require.ErrorIs(t, err, snapshot.ErrNoSnapshot)
	require.NoError(t, d.Discard())
	data, err := os.ReadFile(dir)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestACancelledCommitChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	require.NoError(t, put(t.Context(), dir, "old", 1, false))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, put(ctx, dir, "new", 1, true), context.Canceled)
	about, err := snapshot.Open(t.Context(), dir)
	require.NoError(t, err)
	require.JSONEq(t, `"old"`, string(about.Setup))
	left, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, left, 1)
	_, err = snapshot.Open(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
}

// seal makes the list and the manifest of a snapshot agree with what a stranger says
// is in it.
func seal(t *testing.T, dir, list string, about map[string]any) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.List), []byte(list), 0o600))
	sum := sha256.Sum256([]byte(list))
	all := map[string]any{
		"format": "pygent snapshot", "version": 1, "saved": time.Unix(1, 0), "setup": map[string]any{}, "messages": 0,
		"contents": map[string]any{"files": 0, "directories": 0, "links": 0, "bytes": 0, "files_jsonl_sha256": hex.EncodeToString(sum[:])},
	}
	for k, v := range about {
		all[k] = v
	}
	data, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.Manifest), data, 0o600))
}

func line(path, kind, mode, content, target string) string {
	one := map[string]any{"path": path, "kind": kind}
	if mode != "" {
		one["mode"] = mode
	}
	if kind != "directory" {
		sum := sha256.Sum256([]byte(content + target))
		one["sha256"] = hex.EncodeToString(sum[:])
	}
	if content != "" {
		one["size"] = len(content)
	}
	if target != "" {
		one["target"] = target
	}
	data, _ := json.Marshal(one)
	return string(data) + "\n"
}

const workspaceLine = `{"path":"workspace","kind":"directory","mode":"0700"}` + "\n"

func TestHostileSnapshotsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"a history that leads out": {func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, snapshot.History)))
			seal(t, dir, line(snapshot.History, "link", "", "", "/etc/passwd")+workspaceLine, nil)
		}, "history.json is no file"},
		"a workspace that leads out": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, snapshot.Workspace)))
			require.NoError(t, os.Symlink("/etc", filepath.Join(dir, snapshot.Workspace)))
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.History), []byte("[]"), 0o600))
			seal(t, dir, line(snapshot.History, "file", "0600", "[]", "")+line(snapshot.Workspace, "link", "", "", "/etc"), nil)
		}, "workspace is no directory"},
		"a manifest that leads out": {func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, snapshot.Manifest)))
		}, "not a regular file"},
		"a list that never ends": {func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, snapshot.List), 0o600))
			seal2(t, dir)
		}, "not a regular file"},
		"a pipe": {func(t *testing.T, dir string) {
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, snapshot.Workspace, "p\x1b[2J"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.History), []byte("[]"), 0o600))
			seal(t, dir, line(snapshot.History, "file", "0600", "[]", "")+workspaceLine, nil)
		}, `p\x1b[2J" is no file, directory or link`},
		"a long line": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.History), []byte("[]"), 0o600))
			seal(t, dir, strings.Repeat("x", 2<<20), nil)
		}, "too long"},
		"counts that are not true": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.History), []byte("[]"), 0o600))
			seal(t, dir, line(snapshot.History, "file", "0600", "[]", "")+workspaceLine, map[string]any{
				"contents": map[string]any{"files": 1 << 60, "directories": 0, "links": 0, "bytes": 1 << 62, "files_jsonl_sha256": ""}})
		}, "does not say what"},
		"names that lead out": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.History), []byte("[]"), 0o600))
			seal(t, dir, line(snapshot.History, "file", "0600", "[]", "")+workspaceLine+line("workspace/../../x", "file", "0600", "", ""), nil)
		}, "workspace/../../x is missing"},
		"deep JSON": {func(t *testing.T, dir string) {
			seal(t, dir, "", map[string]any{"setup": json.RawMessage(strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000))})
			data, err := os.ReadFile(filepath.Join(dir, snapshot.Manifest))
			require.NoError(t, err)
			deep := strings.Repeat("[", 200_000)
			require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.Manifest), []byte(strings.Replace(string(data), `"messages":0`, `"messages":`+deep, 1)), 0o600))
		}, "snapshot.json"},
		"a manifest without end": {func(t *testing.T, dir string) {
			seal(t, dir, "", map[string]any{"left_out": []any{map[string]any{"path": strings.Repeat("x", 5<<20), "why": ""}}})
		}, "has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, snapshot.Workspace), 0o700))
			c.make(t, dir)
			_, err := snapshot.Open(t.Context(), dir)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\x1b")
		})
	}
}

// seal2 writes a manifest for a list that cannot be read.
func seal2(t *testing.T, dir string) {
	t.Helper()
	other := t.TempDir()
	seal(t, other, "", nil)
	data, err := os.ReadFile(filepath.Join(other, snapshot.Manifest))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, snapshot.Manifest), data, 0o600))
}

func TestOddNamesAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	d, err := snapshot.Begin(dir, false)
	require.NoError(t, err)
	require.NoError(t, fill(d.Dir(), "x", 1))
	for _, name := range []string{"a\nb", "\xff\xfe", "\"quoted\"", "..x", "-rf", "\x1b[2J", " "} {
		require.NoError(t, os.WriteFile(filepath.Join(d.Dir(), snapshot.Workspace, name), []byte(name), 0o600))
	}
	_, err = d.Commit(t.Context(), snapshot.About{Setup: json.RawMessage("{}")})
	require.NoError(t, err)
	require.NoError(t, d.Discard())
	_, err = snapshot.Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(dir, snapshot.Workspace, "\xff\xfe"), filepath.Join(dir, snapshot.Workspace, "\xff\xfd")))
	_, err = snapshot.Open(t.Context(), dir)
	require.ErrorIs(t, err, snapshot.ErrDamaged)
}

func TestACopyWithAnotherUmaskIsNotDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	require.NoError(t, put(t.Context(), dir, "x", 1, false))
	file := filepath.Join(dir, snapshot.Workspace, "d", "0")
	require.NoError(t, os.Chmod(file, 0o600))
	_, err := snapshot.Open(t.Context(), dir)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(file, 0o700))
	_, err = snapshot.Open(t.Context(), dir)
	require.ErrorIs(t, err, snapshot.ErrDamaged)
}

// A stranger's file may be larger than anybody waits for: it is compared by its size
// before it is read. Such a file has a hole, which no disk of a test could hold.
func TestFilesOfAnotherSizeAreNotRead(t *testing.T) {
	for name, path := range map[string]string{"the conversation": snapshot.History, "a file": snapshot.Workspace + "/d/0"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "snap")
			require.NoError(t, put(t.Context(), dir, "one", 1, false))
			require.NoError(t, os.Truncate(filepath.Join(dir, path), 1<<40))
			_, err := snapshot.Open(t.Context(), dir)
			require.ErrorIs(t, err, snapshot.ErrDamaged)
			require.ErrorContains(t, err, " has 1099511627776 bytes")
		})
	}
}

// Nor is a file of the workspace that has hardly anything but holes, and whose size the
// list says, too.
func TestHolesHaveABound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	require.NoError(t, put(t.Context(), dir, "one", 1, false))
	require.NoError(t, os.Truncate(filepath.Join(dir, snapshot.Workspace, "d", "0"), 1<<40))
	list := filepath.Join(dir, snapshot.List)
	lines, err := os.ReadFile(list)
	require.NoError(t, err)
	said := regexp.MustCompile(`("path":"`+snapshot.Workspace+`/d/0".*"size":)[0-9]+`).ReplaceAllString(string(lines), "${1}1099511627776")
	require.NotEqual(t, string(lines), said)
	require.NoError(t, os.WriteFile(list, []byte(said), 0o600))
	_, err = snapshot.Open(t.Context(), dir)
	require.ErrorIs(t, err, snapshot.ErrDamaged)
	require.ErrorContains(t, err, "has 1099511627776 bytes, and hardly any of them on the disk")
}

// The list may say the same: a conversation has a bound all the same.
func TestAnEndlessConversationIsNotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "snap")
	require.NoError(t, put(t.Context(), dir, "one", 1, false))
	require.NoError(t, os.Truncate(filepath.Join(dir, snapshot.History), 1<<40))
	list := filepath.Join(dir, snapshot.List)
	lines, err := os.ReadFile(list)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, []byte(strings.Replace(string(lines), `"size":3,`, `"size":1099511627776,`, 1)), 0o600))
	_, err = snapshot.Open(t.Context(), dir)
	require.ErrorIs(t, err, snapshot.ErrDamaged)
	require.ErrorContains(t, err, "history.json has 1099511627776 bytes, and no more than 1073741824 are read")
}
