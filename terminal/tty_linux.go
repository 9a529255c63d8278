package terminal

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// endReads ends a read of the terminal that waits, with an error. A read looks at
// whether it may wait whenever the mode of the terminal is set.
func (t *tty) endReads() {
	const wake = 20 * time.Millisecond
	fd := int(t.in.Fd())
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || unix.SetNonblock(fd, true) != nil {
		return
	}
	_ = unix.IoctlSetTermios(fd, unix.TCSETS, mode)
	time.Sleep(wake)
	_ = unix.SetNonblock(fd, false)
}

// dropOutput has the terminal forget what it was sent and has not taken yet. Whoever
// writes goes on then, for which the output is halted and continued.
func dropOutput(terminal *os.File) {
	const halt, resume = 0, 1 // TCOOFF and TCOON
	fd := int(terminal.Fd())
	_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH)
	_ = unix.IoctlSetInt(fd, unix.TCXONC, halt)
	_ = unix.IoctlSetInt(fd, unix.TCXONC, resume)
}
