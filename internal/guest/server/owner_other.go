//go:build !unix

package server

import (
	"io/fs"
	"os"

	"github.com/x/pygent/internal/guest/wire"
)

// nonblock has no meaning here.
const nonblock = 0

// owner is the owner of a file. Files have no such owners here.
type owner struct{ UID, GID int }

func workspaceOwner(*os.Root, *wire.Hello) (*owner, bool) { return nil, false }

func ownerOf(*os.Root) *owner { return nil }

func ownerOfInfo(fs.FileInfo) *owner { return nil }

// checkDir returns why a command cannot start in dir, or nil.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: dir, Err: fs.ErrInvalid}
	}
	return err
}
