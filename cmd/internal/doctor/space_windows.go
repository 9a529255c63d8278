package doctor

import (
	"fmt"
	"math"

	"golang.org/x/sys/windows"
)

// freeSpace returns how many bytes this user may write to the file system of a directory.
func freeSpace(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return int64(min(free, math.MaxInt64)), nil
}
