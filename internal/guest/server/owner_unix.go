//go:build unix

package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/x/pygent/internal/guest/wire"
)

// nonblock keeps an open from waiting for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK

// owner is who a file belongs to.
type owner struct{ UID, GID int }

// workspaceOwner returns whom the workspace belongs to, or nil where it is unknown,
// and whether that is the host's word.
func workspaceOwner(root *os.Root, m *wire.Hello) (o *owner, hosts bool) {
	if o, ok := ownerOnHost(root, m.HostOwner); ok {
		return o, true
	}
	if m.Owner.Known {
		return &owner{UID: int(m.Owner.UID), GID: int(m.Owner.GID)}, false
	}
	return ownerOf(root), false
}

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
