//go:build unix

package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// nonblock keeps an open from waiting for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK

// owner is who a file belongs to.
type owner struct{ UID, GID int }

// ownerOf returns the owner of the workspace, or nil where it is unknown.
func ownerOf(root *os.Root) *owner {
	info, err := root.Stat(".")
	if err != nil {
		return nil
	}
	return ownerOfInfo(info)
}

func ownerOfInfo(info fs.FileInfo) *owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return &owner{UID: int(stat.Uid), GID: int(stat.Gid)}
}

// checkDir gives the reason why a command cannot start in dir, which is hard
// to tell from the error of starting it.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: filepath.ToSlash(dir), Err: syscall.ENOTDIR}
	}
	return err
}
