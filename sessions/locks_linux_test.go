package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

// inherit opens once more all files that this process has open in a directory, until
// the test is over. So has a child that is being started, for a moment.
func inherit(t *testing.T, dir string) (files int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range open {
		name, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || !strings.HasPrefix(name, dir+"/") {
			continue
		}
		fd, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Close(again)) })
		files++
	}
	return files
}

// What an agent has closed is free at once, also if another goroutine is just starting
// a process, which has all open files until it becomes another program.
func TestClosedFilesAreNotInUseWhileAProcessStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	dir, workspace := t.TempDir(), t.TempDir()
	kept, checkpoints := filepath.Join(dir, "sessions"), filepath.Join(dir, "checkpoints")
	for i := range 3 {
		agent, err := pygent.New(
			sessions.Keep(filepath.Join(kept, "1abc")), checkpoint.Keep(checkpoints), pygent.WithWorkspace(workspace),
			pygent.WithModel(pygenttest.NewScriptedModel(testkit.CallBash(fmt.Sprintf("echo %d >f", i)), testkit.Stop)), pygent.WithDocker(pygent.DockerNever))
		require.NoError(t, err)
		_, err = agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Greater(t, inherit(t, dir), 3)
		require.NoError(t, agent.Close())
		require.False(t, listed(t, kept)[0].Open)
		removed, err := sessions.Prune(t.Context(), kept, checkpoints, pygent.SessionLimits{Max: 1})
		require.NoError(t, err)
		require.Empty(t, removed)
	}
}
