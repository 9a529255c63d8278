package gitrepo

import (
	"os"
	"strings"
	"syscall"
)

// openPath opens a file without reading it, so that a directory which may only be passed
// through can be opened, too.
const openPath = 0x200000

// Identify returns the identity of the directory at a path that leads through no symbolic
// link. Each directory is opened in the one above, so nobody can put a link into a part of
// the path that was looked at before.
func Identify(dir string) (id Identity, err error) {
	const flags = openPath | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	fd, err := syscall.Open("/", flags, 0)
	for name := range strings.SplitSeq(dir, "/") {
		if err != nil {
			return id, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		if name == "" {
			continue
		}
		above := fd
		fd, err = syscall.Openat(above, name, flags, 0)
		syscall.Close(above)
	}
	if err != nil {
		return id, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return id, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return Identity{stat.Dev, stat.Ino}, nil
}
