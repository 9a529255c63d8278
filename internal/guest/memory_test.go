//go:build !race

// These tests measure memory, of which the race detector takes several times as much.

package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/treedir"
)

func TestLargeFilesDoNotGrowMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 1 GiB")
	}
	const size = 1 << 30
	c := local(t)
	ctx := context.Background()
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "big"), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(from, "big"), size))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, put(t, c, from, "big", "."))
	var n counter
	_, err := c.ReadFile(ctx, "big", &n, 0, -1)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapSys)-int64(before.HeapSys), int64(8<<20))
}

func TestOutputDoesNotGrowMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("prints a gigabyte")
	}
	c := local(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := runCommand(t, c, guest.Command{Script: "head -c 1073741824 /dev/zero"})
	require.EqualValues(t, 1<<30, r.Total)
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapSys)-int64(before.HeapSys), int64(8<<20))
}

func TestLongNamesDoNotFillMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("lists names of 300 MB")
	}
	var b bytes.Buffer
	w := wire.NewListWriter(&b)
	dir := ""
	for range 200 {
		dir += strings.Repeat("d", 300) + "/"
		require.NoError(t, w.Write(treedir.Entry{Name: strings.TrimSuffix(dir, "/"), Mode: 0o755 | 1<<31}))
	}
	for i := range 5_000 {
		require.NoError(t, w.Write(treedir.Entry{Name: fmt.Sprintf("%sf%07d", dir, i), Mode: 0o644}))
	}
	answer := b.Bytes()
	require.Less(t, len(answer), 1<<20, "and yet they are 300 MB of names")
	s, err := objstore.Open(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	_, _, err = s.Take(t.Context(), hostile(t, answer), nil, objstore.TakeOptions{})
	require.ErrorContains(t, err, "the names of the files alone")
}
