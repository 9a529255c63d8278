//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package lineinput

import (
	"errors"
	"math"
	"os"
)

// Mode is a terminal that passes on each key, until it is closed.
type Mode struct{}

// Open returns an error, because it is not known to work on this system.
func Open(*os.File) (*Mode, error) { return nil, errors.ErrUnsupported }

// Suspend does nothing.
func (*Mode) Suspend() error { return nil }

// Resume does nothing.
func (*Mode) Resume() error { return nil }

// Close does nothing.
func (*Mode) Close() error { return nil }

// CutAt is the length in bytes from which a line may have been cut by a terminal
// that collects lines.
const CutAt = math.MaxInt
