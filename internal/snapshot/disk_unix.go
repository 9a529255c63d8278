//go:build unix

package snapshot

import (
	"io/fs"
	"syscall"
)

// onDisk returns how many bytes of a file a disk holds.
func onDisk(info fs.FileInfo) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	const block = 512 // whatever the file system's blocks are
	return int64(stat.Blocks) * block
}
