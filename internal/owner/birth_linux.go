package owner

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birth returns the time at which a file was made, or "" if that is unknown.
func birth(path string) string {
	settle(path)
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &stat)
	if err != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%09d", stat.Btime.Sec, stat.Btime.Nsec)
}

// settle makes an overlay file system copy a directory of a lower layer. The
// overlay would do so at the first change anyway, and the copy has a birth time
// of its own, so this must happen before birth is read.
func settle(path string) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		_ = unix.Lchown(path, -1, -1) // changes nothing, but makes the overlay copy the directory
	}
}
