package owner

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birth tells when a file was made. It is empty where that is not known.
func birth(path string) string {
	settle(path)
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stat)
	if err != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%09d", stat.Btime.Sec, stat.Btime.Nsec)
}

// settle has an overlay make its own copy of a directory of a lower layer, as it
// does at the first change: that copy has a birth of its own.
func settle(path string) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		_ = unix.Lchown(path, -1, -1) // changes nothing else
	}
}
