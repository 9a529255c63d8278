//go:build linux || darwin

package treedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// isLocked locks a directory until it is closed, and reports whether somebody else
// has done so before.
func isLocked(dir *os.File) bool {
	return errors.Is(unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
