//go:build !linux

package tree

import "os"

// dataOf returns the whole file: on this system the holes are not known.
func dataOf(_ *os.File, size int64) extents { return extents{{0, size}} }
