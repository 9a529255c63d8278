package treedir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hasWriter reports whether a program is known to have a file open for writing. The kernel
// refuses a lease of it then (fcntl(2), F_SETLEASE); it also refuses one of a file of
// somebody else, which says nothing.
func hasWriter(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	var fs unix.Statfs_t
	return errors.Is(err, unix.EAGAIN) && unix.Fstatfs(int(f.Fd()), &fs) == nil && leasesTell(uint32(fs.Type))
}

// leasesTell reports whether a lease is refused only because of a writer. On NFS and SMB it
// is refused, with the same error, for each file that the server did not delegate.
func leasesTell(fileSystem uint32) bool {
	switch fileSystem {
	case unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC:
		return false
	}
	return true
}
