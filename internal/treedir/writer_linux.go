package treedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hasWriter reports whether a program is known to have a file open for writing. The kernel
// refuses a lease of it then (fcntl(2), F_SETLEASE); it also refuses one of a file of
// somebody else, which says nothing.
func hasWriter(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}
