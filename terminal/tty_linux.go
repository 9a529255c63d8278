package terminal

import (
	"os"
	"os/signal"
	"time"
	"unsafe"

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

// notifyStopped has c get a value when the process is to be stopped by a signal that
// it may handle.
func notifyStopped(c chan<- os.Signal) { signal.Notify(c, unix.SIGTSTP) }

// letStop has that signal stop the process until end is called. The Go runtime
// ignores it once somebody was notified of it.
func letStop() (end func()) {
	var byDefault, before [maxAction]byte
	if !setAction(&byDefault, &before) {
		return func() {}
	}
	return func() { setAction(&before, nil) }
}

// maxAction is more than the size of the kernel's struct sigaction. With zeros, it is
// what a signal does by default.
const maxAction = 256

// setAction sets what the signal of Ctrl-Z does.
func setAction(action, before *[maxAction]byte) bool {
	const sizeOfSet = 8
	_, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(before)), sizeOfSet, 0, 0)
	return failed == 0
}
