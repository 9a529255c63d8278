//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// CutAt is the length in bytes from which a line may have been cut by a terminal
// that collects lines.
const CutAt = 1023

// reading is FREAD of <sys/fcntl.h>. It selects the queue of the input.
const reading = 1

func flush(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, reading) }
