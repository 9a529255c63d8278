//go:build !linux

package tree

import "os"

// dataOf returns the whole file: where its holes are is not known here.
func dataOf(_ *os.File, size int64) extents { return extents{{0, size}} }
