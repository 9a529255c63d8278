//go:build linux || darwin

package doctor

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// freeSpace returns how many bytes this user may write to the file system of a directory.
func freeSpace(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	return int64(min(uint64(fs.Bavail)*uint64(fs.Bsize), math.MaxInt64)), nil
}
