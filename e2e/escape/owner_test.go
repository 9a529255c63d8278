//go:build linux

package escape

import (
	"fmt"
	"io/fs"
	"syscall"
)

// ownerOf returns a file's owner and group, and its number of links. That of a
// directory depends on the directories in it.
func ownerOf(info fs.FileInfo) string {
	stat := info.Sys().(*syscall.Stat_t)
	if info.IsDir() {
		return fmt.Sprint(stat.Uid, ":", stat.Gid)
	}
	return fmt.Sprint(stat.Uid, ":", stat.Gid, " ", stat.Nlink)
}
