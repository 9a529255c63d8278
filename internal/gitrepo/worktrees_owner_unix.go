//go:build unix

package gitrepo

import (
	"io/fs"
	"os"
	"syscall"
)

// own gives a file to the owner of another one, where this process may.
func own(root *os.Root, name string, like fs.FileInfo) {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		_ = root.Lchown(name, int(stat.Uid), int(stat.Gid))
	}
}
