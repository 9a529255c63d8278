package pygent

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
	}
}

func TestTarKeepsTheTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	writeTree(t, from, map[string]string{"a/b/c": "deep", "run": "#!/bin/sh"})
	require.NoError(t, os.Chmod(filepath.Join(from, "run"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(from, "empty"), 0o755))
	require.NoError(t, os.Symlink("a/b/c", filepath.Join(from, "link")))
	var packed bytes.Buffer
	require.NoError(t, writeTar(t.Context(), &packed, from))
	require.NoError(t, readTar(t.Context(), bytes.NewReader(packed.Bytes()), to))

	data, err := os.ReadFile(filepath.Join(to, "link"))
	require.NoError(t, err)
	require.Equal(t, "deep", string(data))
	require.DirExists(t, filepath.Join(to, "empty"))
	info, err := os.Stat(filepath.Join(to, "run"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode())

	var again bytes.Buffer
	require.NoError(t, writeTar(t.Context(), &again, to))
	require.Equal(t, packed.Bytes(), again.Bytes(), "equal trees give equal bytes")
}

func TestTarCannotLeaveItsDirectory(t *testing.T) {
	pack := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Size = int64(len("evil"))
			if h.Typeflag != tar.TypeReg {
				h.Size = 0
			}
			require.NoError(t, w.WriteHeader(&h))
			if h.Size > 0 {
				_, err := w.Write([]byte("evil"))
				require.NoError(t, err)
			}
		}
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	outside := t.TempDir()
	for name, data := range map[string][]byte{
		"dots":     pack(tar.Header{Typeflag: tar.TypeReg, Name: "../x", Mode: 0o600}),
		"absolute": pack(tar.Header{Typeflag: tar.TypeReg, Name: filepath.Join(outside, "x"), Mode: 0o600}),
		"link": pack(tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: outside},
			tar.Header{Typeflag: tar.TypeReg, Name: "l/x", Mode: 0o600}),
		"device": pack(tar.Header{Typeflag: tar.TypeChar, Name: "x"}),
		"hard":   pack(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"}),
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, readTar(t.Context(), bytes.NewReader(data), t.TempDir()))
			entries, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func FuzzReadTar(f *testing.F) {
	dir := f.TempDir()
	require.NoError(f, os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600))
	var seed bytes.Buffer
	require.NoError(f, writeTar(f.Context(), &seed, dir))
	f.Add(seed.Bytes())
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		inside := filepath.Join(parent, "in")
		require.NoError(t, os.Mkdir(inside, 0o755))
		_ = readTar(t.Context(), bytes.NewReader(data), inside)
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestFilesAreStoredOncePerContent(t *testing.T) {
	rt, err := NewLocalRuntime(t.Context())
	require.NoError(t, err)
	defer rt.Cleanup()
	require.NoError(t, rt.WriteFile(t.Context(), "d/f", []byte("x")))
	var store taskFiles
	one, err := store.collect(t.Context(), rt, []string{"d"})
	require.NoError(t, err)
	absolute := rt.(Describer).Describe(t.Context()).Workspace + "/d/f"
	two, err := store.collect(t.Context(), rt, []string{absolute})
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.True(t, strings.HasPrefix(one, "sha256:"))
	store.release(one)
	require.FileExists(t, store.path(two))
	path := store.path(two)
	store.release(two)
	require.NoFileExists(t, path)
	dir := store.dir
	require.NoError(t, store.close())
	require.NoDirExists(t, dir)
}

func TestTaskLogDropsDeltasFirst(t *testing.T) {
	var l taskLog
	for i := range 3 * maxTaskEvents {
		kind := EventText
		if i%4 == 0 {
			kind = EventMessage
		}
		require.EqualValues(t, i+1, l.append(Event{Type: kind}))
	}
	events, _ := l.after(0)
	require.LessOrEqual(t, len(events), maxTaskEvents)
	kept := 0
	for i, e := range events {
		if i > 0 {
			require.Greater(t, e.Seq, events[i-1].Seq)
		}
		if e.Type == EventMessage {
			kept++
		}
	}
	require.Greater(t, kept, maxTaskEvents/2)
	tail, more := l.after(l.last() - 1)
	require.Len(t, tail, 1)
	select {
	case <-more:
		t.Fatal("there is nothing new")
	default:
	}
	l.append(Event{Type: EventStep})
	<-more
}
