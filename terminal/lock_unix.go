//go:build !windows

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file, unless another process has done so. It is unlocked when it
// is closed.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func unlockFile(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
