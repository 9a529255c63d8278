//go:build unix

package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/x/pygent/internal/guest/wire"
)

// nonblock keeps an open from blocking on a named pipe.
const nonblock = syscall.O_NONBLOCK

// owner is the owner of a file.
type owner struct{ UID, GID int }

// workspaceOwner returns the owner of the workspace, or nil if it is unknown.
// hosts means that the host has named this owner.
func workspaceOwner(root *os.Root, m *wire.Hello) (o *owner, hosts bool) {
	if o, ok := ownerOnHost(root, m.HostOwner); ok {
		return o, true
	}
	if m.Owner.Known {
		return &owner{UID: int(m.Owner.UID), GID: int(m.Owner.GID)}, false
	}
	return ownerOf(root), false
}

// ownerOf returns the owner of the workspace's directory, or nil if it is
// unknown.
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

// checkDir returns why a command cannot start in dir, or nil. The error of
// starting the command would not say it clearly.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: filepath.ToSlash(dir), Err: syscall.ENOTDIR}
	}
	return err
}
