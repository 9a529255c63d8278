package treedir

import (
	"io/fs"
	"syscall"
)

// system returns when a file was last changed in any way, and its inode.
func system(info fs.FileInfo) (changed int64, inode uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime().UnixNano(), 0
	}
	return syscall.TimespecToNsec(s.Ctim), s.Ino
}
