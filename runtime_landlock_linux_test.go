package pygent_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/sandbox"
)

// withoutLandlock is a Python script that runs its arguments as on a kernel
// without Landlock.
const withoutLandlock = `
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), (6, 0, 0, 0x50026), (6, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
`

// TestRootSetsNothingOfTheKernelWithoutLandlock tries the files below /proc
// that root may write without any capability, such as the one that names the
// program to run when another program crashes.
func TestRootSetsNothingOfTheKernelWithoutLandlock(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const inside = "PYGENT_TEST_NO_LANDLOCK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), "python3", "-c", withoutLandlock, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	support := guest.Confinement(t.Context(), sandbox.MakeTemp)
	require.Zero(t, support.Landlock)
	if support.Level != confine.Full {
		t.Skip("needs namespaces")
	}
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	for _, attack := range []string{
		`: >>/proc/sys/kernel/core_pattern`, `cp /proc/sys/vm/swappiness s && cat s >/proc/sys/vm/swappiness`, `mount -o remount,rw /proc`,
		`unshare -U -m -p --fork sh -c 'mount -i -t proc p /mnt && : >>/mnt/sys/kernel/core_pattern'`,
	} {
		require.NotZero(t, bash(t, r, attack).ExitCode, attack)
	}
}
