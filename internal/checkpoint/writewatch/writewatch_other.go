//go:build !linux

package writewatch

import "errors"

// Watch is a watch of a directory. There are none on this system.
type Watch struct{}

// Open fails on this system.
func Open(string) (*Watch, error) { return nil, errors.ErrUnsupported }

// Written returns nothing.
func (*Watch) Written() Files { return nil }

// Missed returns false.
func (*Watch) Missed() bool { return false }

// Late returns nothing.
func (*Watch) Late([]string) (late, open Files) { return nil, nil }

// IsOpen returns false.
func (*Watch) IsOpen(string) bool { return false }

// Files are files that were written.
type Files map[uint64]struct{}

// Has returns false.
func (Files) Has(string, uint64) bool { return false }

// Close does nothing.
func (*Watch) Close() error { return nil }
