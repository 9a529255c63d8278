//go:build linux

package pygent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"golang.org/x/sys/unix"
)

func TestLocalBashTellsWhatItLeftBehind(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	require.Empty(t, bash(t, r, "true & echo hi; wait").Note)
	mark := "MARK=" + rand.Text()
	res := bash(t, r, mark+" sleep 600 >/dev/null 2>&1 &")
	require.Regexp(t, `still running in the background: .*, as job \d+`, res.Note)
	require.Eventually(t, func() bool { return runs(t, mark) }, 30*time.Second, time.Millisecond)
	require.NoError(t, r.Cleanup())
	require.False(t, runs(t, mark))
}

// runs reports whether a process of this machine that is no zombie has the variable in its
// environment. Commands may see other numbers of processes than the test does.
func runs(t *testing.T, variable string) bool {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	return slices.ContainsFunc(list, func(path string) bool {
		data, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(data), variable)
	})
}

// reachable lets commands reach the guest, so that they can do to it what may
// also happen in other ways.
func reachable() pygent.RuntimeOption { return pygent.WithLocalProtection(pygent.ProtectionOff) }

// killGuest is a script that kills its own ancestor which is a child of the
// test: the guest.
const killGuest = `p=$$
while read -r _ _ _ parent _ </proc/$p/stat && [ "$parent" != %d ]; do p=$parent; done
kill -9 $p; sleep 60`

func TestLocalGuestThatIsKilledLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable())
	res := bash(t, r, "head -c 100000 /dev/zero")
	require.FileExists(t, res.FullPath)
	killed := bash(t, r, fmt.Sprintf(killGuest, os.Getpid()))
	require.Equal(t, -1, killed.ExitCode)
	require.False(t, killed.TimedOut)
	require.Contains(t, killed.Note, "died while the command ran")
	require.Contains(t, killed.Note, "with all that it ran")
	require.Equal(t, "next\n", bash(t, r, "echo next").Output)
	require.NoFileExists(t, res.FullPath)
	require.NoError(t, r.Cleanup())
	require.Empty(t, entries(t, temp))
}

// What a command had printed is given back although nobody can tell how it ended.
func TestACommandWhoseGuestDiesKeepsItsOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable(), pygent.WithWorkspace(dir))
	seen := sync.OnceValue(func() error { return os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600) })
	script := "echo precious; until test -e seen; do sleep 0.01; done; " + killGuest
	res := bash(t, r, fmt.Sprintf(script, os.Getpid()), pygent.BashOutput(func(c pygent.OutputChunk) {
		if strings.Contains(c.Text, "precious\n") {
			require.NoError(t, seen())
		}
	}))
	require.Equal(t, -1, res.ExitCode)
	require.Equal(t, "precious\n", res.Output)
	require.Contains(t, res.Note, "died while the command ran")
}

func TestRuntimeRefusesANilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	_, err := r.Bash(none, "true")
	require.ErrorContains(t, err, "the context is nil")
	_, err = r.ReadFile(none, "f")
	require.ErrorContains(t, err, "the context is nil")
	require.ErrorContains(t, r.WriteFile(none, "f", nil), "the context is nil")
	require.ErrorContains(t, r.UploadFile(none, "f", ""), "the context is nil")
	require.ErrorContains(t, r.ExportFile(none, "f", ""), "the context is nil")
	for _, open := range []func(context.Context, ...pygent.RuntimeOption) (pygent.Runtime, error){
		pygent.NewRuntime, pygent.NewDockerRuntime, pygent.NewLocalRuntime,
	} {
		_, err := open(none)
		require.ErrorContains(t, err, "the context is nil")
	}
}

func TestLocalGuestSaysWhyItDied(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable())
	res, err := r.Bash(t.Context(), fmt.Sprintf(strings.Replace(killGuest, "-9", "-QUIT", 1), os.Getpid()))
	require.NoError(t, err)
	require.Contains(t, res.Note, "died while the command ran")
	require.Contains(t, res.Note, "the guest said: ")
}

func TestLocalTellsWhatItCannotDo(t *testing.T) {
	t.Parallel()
	events := make(chan pygent.RuntimeEvent, 10)
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) { events <- e }))
	bash(t, r, "true")
	require.NoError(t, r.Cleanup())
	if !emulated() {
		require.Empty(t, events)
		return
	}
	e := <-events
	require.Equal(t, pygent.RuntimeLimited, e.Kind)
	require.Contains(t, e.Text, "process groups")
}

// emulated reports whether this process runs under a user-mode emulator. Such
// an emulator does not support subreapers, so the guest cannot track its
// descendants.
func emulated() bool {
	var is int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0) != nil
}
