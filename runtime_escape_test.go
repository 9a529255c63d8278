package pygent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

func TestContainerCannotChangeTheGuest(t *testing.T) {
	t.Parallel()
	const attack = `d=$(echo /.pygent-*); [ -x "$d/guest" ] || exit 9; echo '#!/bin/sh' >"$d/guest"; rm -f "$d/guest"; mv "$d/guest" /tmp; mv "$d" /tmp/p; chmod 777 "$d/guest"; chown 1234 "$d/guest"; true`
	requireDocker(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	for _, c := range runtimeCases() {
		if c.Name != "docker" && c.Name != "remote" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			before := guestsIn(t, cache)
			r := c.New(t)
			require.Zero(t, bash(t, r, attack).ExitCode)
			require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
			require.NoError(t, r.Cleanup())
			if len(before) > 0 {
				require.Equal(t, before, guestsIn(t, cache))
			}
			require.Equal(t, "alive\n", bash(t, c.New(t), "echo alive").Output)
		})
	}
}

// TestContainerThatStarvesItsGuestIsReplaced lowers the resource limits of PID
// 1, which the kernel permits to any process of the same user.
func TestContainerThatStarvesItsGuestIsReplaced(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"nofile", "nproc", "as", "data", "cpu", "fsize", "stack", "memlock"} {
		t.Run(limit, func(t *testing.T) {
			requireDocker(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
			bash(t, r, "echo kept >f; prlimit --pid 1 --"+limit+"=1:1")
			res, err := r.Bash(t.Context(), "true") // this call may be the one that finds the guest dead
			require.NoError(t, err, res.Note)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		})
	}
}

// guestsIn returns the names and modes of the guest programs in a cache.
func guestsIn(t *testing.T, cache string) map[string]fs.FileMode {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cache, "pygent", "guest-*"))
	require.NoError(t, err)
	found := map[string]fs.FileMode{}
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(data), "\x7fELF"), name)
		found[name] = info.Mode()
	}
	return found
}
