//go:build unix

package tree_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
)

const killedCopyEnv = "PYGENT_TEST_KILLED_COPY"

// TestCopyingProcess is a process that copies a tree, for others to kill.
func TestCopyingProcess(t *testing.T) {
	from, to, ok := strings.Cut(os.Getenv(killedCopyEnv), "|")
	if !ok {
		return
	}
	fmt.Println("begins")
	require.NoError(t, duplicate(context.Background(), t, from, to, tree.ExtractOptions{}))
}

// TestCopyKilledAtAnyMoment kills a process that copies a tree, also while it moves files
// to their places. Each has its old content or its new one then, and the next copy
// completes the tree and removes what is left.
func TestCopyKilledAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	const rounds, files, size = 4, 200, 2 << 10
	from, to := t.TempDir(), t.TempDir()
	content := func(round int) string { return strings.Repeat(fmt.Sprint(round), size) }
	write := func(dir, text string) {
		for i := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(text), 0o644))
		}
	}
	write(to, content(0))
	took := time.Duration(0) // by a copy that nobody kills
	for round := range rounds {
		write(from, content(round+1))
		ctx, kill := context.WithCancel(t.Context())
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCopyingProcess$")
		child.Env = append(os.Environ(), killedCopyEnv+"="+from+"|"+to)
		stdout, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		_, err = stdout.Read(make([]byte, 1))
		require.NoError(t, err)
		late := time.AfterFunc(time.Duration(rand.Int64N(int64(2*took)+1)), kill)
		_ = child.Wait() // it may have been too fast
		late.Stop()
		kill()

		for i := range files {
			got, err := os.ReadFile(filepath.Join(to, fmt.Sprint("f", i)))
			require.NoError(t, err)
			require.Contains(t, []string{content(round), content(round + 1)}, string(got))
		}
		begun := time.Now()
		require.NoError(t, duplicate(t.Context(), t, from, to, tree.ExtractOptions{}))
		took = time.Since(begun)
		left, err := filepath.Glob(filepath.Join(to, ".pygent-stage-*"))
		require.NoError(t, err)
		for _, stage := range left { // nobody can tell whose a directory is that has no mark yet
			require.NoError(t, os.Remove(stage), "it is not empty")
		}
		require.Equal(t, describe(t, from), describe(t, to))
	}
}
