package treedir_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/treedir"
)

// What is there is compared with what is expected, part by part. Room for a part is a
// thousand times as large as most files are.
func TestStepsShareTheRoomForWhatTheyRead(t *testing.T) {
	const steps = 200
	dir := t.TempDir()
	file := func(content string) treedir.Item {
		return treedir.Item{Kind: treedir.File, Mode: 0o600, Size: int64(len(content)), Content: treedir.NameOf(treedir.KindData, []byte(content))}
	}
	for i := range steps {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("now"), 0o600))
	}
	l, err := treedir.OpenLocal(dir)
	require.NoError(t, err)
	defer l.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range steps {
		step := treedir.Step{Change: treedir.Change{Name: fmt.Sprint(i), Old: file("now"), New: file("old")}, Aside: fmt.Sprint(".aside", i)}
		require.NoError(t, l.Make(t.Context(), step, strings.NewReader("old")))
	}
	runtime.ReadMemStats(&after)
	// A step needs two of them. The race detector has a sync.Pool lose a quarter of what it is given.
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/steps, uint64(treedir.ChunkSize))
	require.NoError(t, l.Sync(t.Context()))
	content, err := fs.ReadFile(os.DirFS(dir), fmt.Sprint(steps-1))
	require.NoError(t, err)
	require.Equal(t, "old", string(content))
}
