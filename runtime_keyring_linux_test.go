package pygent_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/guest/confine"
)

// TestKeyringsOfTheUserAreOutOfReach puts a key into the session keyring, where
// for instance Kerberos keeps its keys.
func TestKeyringsOfTheUserAreOutOfReach(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	t.Parallel()
	asRootAndUser(t, func(t *testing.T) {
		eachLevel(t, func(t *testing.T, level confine.Level) {
			runtime.LockOSThread() // never unlocked, because the keyring belongs to this thread
			if _, err := unix.KeyctlJoinSessionKeyring("pygent-test"); err != nil {
				t.Skipf("the kernel keeps no keys: %v", err)
			}
			key, err := unix.AddKey("user", "pygent-test", []byte(hostSecret), unix.KEY_SPEC_SESSION_KEYRING)
			require.NoError(t, err)
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
			res := bash(t, r, `python3 -c '
import ctypes, os
c, buf = ctypes.CDLL(None), ctypes.create_string_buffer(100)
keyctl = int(os.environ["KEYCTL"])
print(c.syscall(keyctl, 8, -4, -3)) # the keyring of the user into that of the session
print(c.syscall(keyctl, 11, int(os.environ["KEY"]), buf, 100), buf.value)
'`, pygent.BashEnv("KEY="+strconv.Itoa(key), "KEYCTL="+strconv.Itoa(unix.SYS_KEYCTL)))
			require.Equal(t, "-1\n-1 b''\n", res.Output)
		})
	})
}
