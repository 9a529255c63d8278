//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// CutAt is the length in bytes from which on a terminal that collects lines may
// have cut one.
const CutAt = 1023

// reading is FREAD of <sys/fcntl.h>: the queue to drop is that of the input.
const reading = 1

func flush(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, reading) }
