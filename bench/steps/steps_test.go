package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// TestTheTasksAreFinishedInFewSteps keeps the command honest: each task is
// finished, in no more model calls than here.
func TestTheTasksAreFinishedInFewSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("solves all tasks")
	}
	for _, program := range []string{"python3", "git"} {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS == "windows" {
			t.Skip("the tasks need python3, git and a POSIX shell")
		}
	}
	t.Setenv("PYTHONUNBUFFERED", "") // which restores it
	require.NoError(t, os.Unsetenv("PYTHONUNBUFFERED"))
	// A busy machine makes the player of serve ask more often.
	most := map[string]int{"bug": 7, "serve": 24, "huge": 5, "long": 7, "delegate": 17, "local": 7, "patch": 6, "chat": 7}
	b := bench{only: regexp.MustCompile(""), quick: true, transcripts: t.TempDir()}
	all, err := b.play(t.Context())
	require.NoError(t, err)
	require.Len(t, all, len(most))
	for _, f := range all {
		require.LessOrEqual(t, f.steps, most[f.name], f.name)
		if f.name != "chat" {
			require.GreaterOrEqual(t, f.calls, f.steps, "%s: each step calls a tool", f.name)
		}
		require.Greater(t, f.sent, f.result, f.name)
		require.Equal(t, map[bool]pygent.Status{true: pygent.StatusReplied, false: pygent.StatusStopped}[f.name == "chat"], f.ended, f.name)
		require.FileExists(t, filepath.Join(b.transcripts, f.name+".txt"))
	}
	var table strings.Builder
	print(&table, all)
	require.Contains(t, table.String(), "8 of 8")
}
