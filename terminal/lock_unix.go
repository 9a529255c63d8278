//go:build !windows

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits until no other process has locked a file. It is unlocked when it is
// closed.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }

func unlockFile(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
