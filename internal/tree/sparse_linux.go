package tree

import (
	"errors"
	"os"
	"syscall"
)

// Values for lseek that package syscall does not define.
const (
	seekData = 3
	seekHole = 4
)

// dataOf returns the parts of a file of the given size that hold data. If the
// holes are small or cannot be determined, the whole file is one part.
func dataOf(file *os.File, size int64) extents {
	whole := extents{{0, size}}
	var x extents
	for at := int64(0); at < size; {
		from, err := file.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) || err == nil && from >= size {
			break // only a hole follows
		}
		if err != nil {
			return whole
		}
		to, err := file.Seek(from, seekHole)
		if err != nil || to <= from {
			return whole
		}
		if len(x) == maxExtents-1 {
			to = size
		}
		to = min(to, size)
		x = append(x, extent{from, to - from})
		at = to
	}
	if size-x.bytes() < minHole {
		return whole
	}
	return x
}
