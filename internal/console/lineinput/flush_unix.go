//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Flush drops what was typed at a terminal and not read yet.
func Flush(terminal *os.File) error {
	if err := flush(int(terminal.Fd())); err != nil {
		return fmt.Errorf("drop what was typed ahead: %w", err)
	}
	return nil
}

// More reports whether a terminal has input that can be read within a time.
func More(terminal *os.File, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}}
	for until := time.Now().Add(within); ; {
		n, err := unix.Poll(fds, int(max(0, time.Until(until)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
		}
	}
}

// drain reads the input that a terminal has ready, and returns its last byte. ok
// is false if there is none. Nobody else may read the terminal meanwhile.
func drain(terminal *os.File) (last byte, ok bool) {
	const most = 256 // reads, in case the input never ends
	buf := make([]byte, 4096)
	for range most {
		if !More(terminal, 0) {
			break
		}
		n, err := unix.Read(int(terminal.Fd()), buf)
		if err != nil || n <= 0 {
			break
		}
		last, ok = buf[n-1], true
	}
	return last, ok
}
