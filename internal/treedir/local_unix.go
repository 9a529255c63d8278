//go:build unix

package treedir

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps an open from blocking on a named pipe.
const nonblock = syscall.O_NONBLOCK

// keepOwner gives a new file the owner and the group of the one whose place it
// takes, as far as this process may.
func keepOwner(dir *os.Root, name string, of fs.FileInfo) {
	s, ok := of.Sys().(*syscall.Stat_t)
	made, err := dir.Lstat(name)
	if !ok || err != nil {
		return
	}
	m, ok := made.Sys().(*syscall.Stat_t)
	if ok && (m.Uid != s.Uid || m.Gid != s.Gid) && dir.Lchown(name, int(s.Uid), int(s.Gid)) != nil && m.Gid != s.Gid {
		_ = dir.Lchown(name, -1, int(s.Gid))
	}
}
