//go:build unix

package tree

import (
	"io/fs"
	"syscall"
)

func ownerOf(info fs.FileInfo) *Owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return &Owner{UID: int(stat.Uid), GID: int(stat.Gid)}
}
