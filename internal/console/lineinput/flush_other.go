//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package lineinput

import (
	"errors"
	"os"
	"time"
)

// Flush returns an error, because it is not known to work on this system.
func Flush(*os.File) error { return errors.ErrUnsupported }

// More always returns false, because this system does not tell.
func More(*os.File, time.Duration) bool { return false }

// drain reads nothing. Flush drops everything.
func drain(*os.File) (last byte, ok bool) { return 0, false }
