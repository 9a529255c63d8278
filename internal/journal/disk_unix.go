//go:build unix

package journal

import (
	"io/fs"
	"os"
	"syscall"
)

// names returns how many names a file has.
func names(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// chown gives f the owner of another file if this process may do that.
func chown(f *os.File, from fs.FileInfo) {
	if s, ok := from.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid))
	}
}
