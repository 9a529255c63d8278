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
