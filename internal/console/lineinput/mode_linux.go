package lineinput

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// CutAt is the length in bytes from which a line may have been cut by a terminal
// that collects lines.
const CutAt = 4095

func flush(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
