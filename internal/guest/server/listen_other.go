//go:build !linux

package server

import (
	"errors"
	"fmt"
)

// listener does nothing here: only the guests of containers listen for the
// host.
type listener struct{ port int }

func listenLoopback(port int) (*listener, error) {
	return nil, fmt.Errorf("listen on port %d: %w", port, errors.ErrUnsupported)
}

func (*listener) accept() (duplex, error) { return nil, errors.ErrUnsupported }

// Close implements io.Closer.
func (*listener) Close() error { return nil }
