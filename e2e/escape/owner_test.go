//go:build linux

package escape

import (
	"fmt"
	"io/fs"
	"syscall"
)

// ownerOf names a file's owner and group, and how many names it has. The number
// of a directory's is that of the directories in it.
func ownerOf(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	if info.IsDir() {
		return fmt.Sprint(stat.Uid, ":", stat.Gid)
	}
	return fmt.Sprint(stat.Uid, ":", stat.Gid, " ", stat.Nlink)
}
