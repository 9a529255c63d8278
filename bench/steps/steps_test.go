package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTasksAreFinishedInFewSteps keeps the command honest: each task is
// finished, in no more model calls than here.
func TestTheTasksAreFinishedInFewSteps(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil || runtime.GOOS == "windows" {
		t.Skip("the tasks need python3 and a POSIX shell")
	}
	t.Setenv("PYTHONUNBUFFERED", "")
	most := map[string]int{"bug": 9, "serve": 24, "huge": 6, "long": 9, "delegate": 20, "local": 12}
	b := bench{only: regexp.MustCompile(""), quick: true, transcripts: t.TempDir()}
	all, err := b.play(t.Context())
	require.NoError(t, err)
	require.Len(t, all, len(most))
	for _, f := range all {
		require.LessOrEqual(t, f.steps, most[f.name], f.name)
		require.GreaterOrEqual(t, f.calls, f.steps, "%s: each step calls a tool", f.name)
		require.Greater(t, f.sent, f.result, f.name)
		require.FileExists(t, filepath.Join(b.transcripts, f.name+".txt"))
	}
	var table strings.Builder
	print(&table, all)
	require.Contains(t, table.String(), "6 of 6")
}
