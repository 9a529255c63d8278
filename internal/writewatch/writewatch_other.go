//go:build !linux

package writewatch

import "errors"

// Watch is a watch of a directory. There are none on this system.
type Watch struct{}

// Open fails on this system.
func Open(string) (*Watch, error) { return nil, errors.ErrUnsupported }

// Written returns nothing.
func (*Watch) Written() (inodes map[uint64]bool) { return nil }

// Close does nothing.
func (*Watch) Close() error { return nil }
