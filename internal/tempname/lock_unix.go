//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package tempname

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	locked   = true
	nonblock = unix.O_NONBLOCK | unix.O_NOFOLLOW
)

// closeHeld closes a file, whose lock goes on until release: an error of closing is known
// before the file takes its place.
func closeHeld(f *os.File) (release func(), err error) {
	held, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return func() {}, f.Close()
	}
	return func() { _ = unix.Close(held) }, f.Close()
}
