//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Flush drops what was typed at a terminal and was not read yet.
func Flush(terminal *os.File) error {
	if err := flush(int(terminal.Fd())); err != nil {
		return fmt.Errorf("drop what was typed ahead: %w", err)
	}
	return nil
}

// More reports whether a terminal has more to read at once.
func More(terminal *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}
