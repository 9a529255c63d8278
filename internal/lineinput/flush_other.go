//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package lineinput

import (
	"errors"
	"os"
)

// Flush is not known to work on this system.
func Flush(*os.File) error { return errors.ErrUnsupported }

// More is not known on this system.
func More(*os.File) bool { return false }

// drain leaves all to Flush.
func drain(*os.File) (last byte, ok bool) { return 0, false }
