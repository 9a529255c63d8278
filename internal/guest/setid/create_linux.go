package setid

import "golang.org/x/sys/unix"

// creation is a system call that makes a file and opens it.
type creation struct {
	dir     int32
	address uint64 // address of the path in the caller's memory
	flags   uint64
	mode    uint32
}

// openFlags are the flags that are honoured for a new file. The others mean
// nothing for one.
const openFlags = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_APPEND |
	unix.O_NONBLOCK | unix.O_SYNC | unix.O_DIRECT | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NOATIME | unix.O_TMPFILE

// tmpfile is the bit that only O_TMPFILE has.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// creationOf decodes a call that makes a file. It reports false for any other
// call.
func creationOf(a abi, c call) (creation, bool) {
	arg := func(i int) uint32 { return uint32(c.args[i]) }
	switch int64(c.nr) {
	case a.open:
		return creation{dir: unix.AT_FDCWD, address: c.args[0], flags: uint64(arg(1)), mode: arg(2)}, true
	case a.openat:
		return creation{dir: int32(arg(0)), address: c.args[1], flags: uint64(arg(2)), mode: arg(3)}, true
	case a.creat:
		const flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
		return creation{dir: unix.AT_FDCWD, address: c.args[0], flags: flags, mode: arg(1)}, true
	default:
		return creation{}, false
	}
}

// create makes a file and gives the caller a descriptor of it. The file must be
// new: opening an existing one may block for ever, so with these bits it is
// refused.
func (d *deputy) create(c call, from *caller, want creation) error {
	if want.flags&unix.O_PATH != 0 {
		return unix.EPERM
	}
	path, err := from.text(want.address)
	if err != nil {
		return err
	}
	begin, err := from.base(want.dir, path)
	if err != nil {
		return err
	}
	defer begin.close()
	// Only a call that still waits proves that everything read so far belonged
	// to the caller.
	if !d.notify.waits(c.id) {
		return unix.ESRCH
	}
	how := want.how(from.umask)
	fd, err := begin.open(path, how)
	if err == unix.EEXIST && want.flags&unix.O_EXCL == 0 {
		err = unix.EPERM
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, uint32(how.Mode)); err != nil { // the umask of this process must not apply
		return err
	}
	return d.notify.give(c.id, fd, want.flags&unix.O_CLOEXEC != 0)
}

// how returns how to open the new file.
func (want creation) how(umask uint32) unix.OpenHow {
	how := unix.OpenHow{
		Flags: want.flags&openFlags&^unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_LARGEFILE | unix.O_NOCTTY,
		Mode:  uint64(want.mode & modeMask &^ bits &^ umask),
	}
	if want.flags&tmpfile != 0 {
		how.Flags |= unix.O_DIRECTORY
	} else {
		how.Flags |= unix.O_EXCL
	}
	return how
}
