//go:build unix

package workspace

import (
	"io/fs"
	"os"
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

// keepOwner gives a new file the owner and the group of the one whose place it
// takes, as far as this process may.
func keepOwner(f *os.File, of fs.FileInfo) {
	uid, gid, ok := ownerOf(of)
	made, err := f.Stat()
	if !ok || err != nil {
		return
	}
	if u, g, _ := ownerOf(made); (u != uid || g != gid) && f.Chown(uid, gid) != nil && g != gid {
		_ = f.Chown(-1, gid)
	}
}
