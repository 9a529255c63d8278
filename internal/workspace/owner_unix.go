//go:build unix

package workspace

import (
	"io/fs"
	"syscall"
)

// Owner returns the owner of the tree's directory. ok is false if it is
// unknown.
func (t *Tree) Owner() (uid, gid int, ok bool) {
	info, err := t.root.Stat(".")
	if err != nil {
		return 0, 0, false
	}
	return ownerOf(info)
}

func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}
