package lineinput

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// CutAt is the length in bytes from which on a terminal that collects lines may
// have cut one.
const CutAt = 4095

func flush(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
