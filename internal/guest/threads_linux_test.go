package guest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestIdleGuestsTakeNoThreads starts guests, of each of which this process hears when it
// ends. A thread that waits for that would cost more memory than all else of an idle guest.
func TestIdleGuestsTakeNoThreads(t *testing.T) {
	if pidfd, err := unix.PidfdOpen(os.Getpid(), 0); err != nil {
		t.Skip("the kernel has no pidfds: ", err)
	} else {
		require.NoError(t, unix.Close(pidfd))
	}
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(all)
	}
	const guests = 24
	before := threads()
	for range guests {
		run(t, local(t), "true")
	}
	require.Less(t, threads()-before, guests/2, "some are Go's own")
}
