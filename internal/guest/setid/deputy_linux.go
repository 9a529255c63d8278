package setid

import (
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// deputy makes system calls in place of commands, without the setuid and setgid
// bits.
type deputy struct {
	self   identity
	notify *listener
}

// change is a call that changes the mode of a file.
type change struct {
	dir     int32
	address uint64 // address of the path in the caller's memory
	bare    bool   // there is no path; dir is the file itself
	flags   uint64
	mode    uint32
}

// modeMask covers the bits of a mode. System calls ignore all others.
const modeMask = 0o7777

// answer makes a call and sends the caller its result.
func (d *deputy) answer(c call) {
	a := abis[runtime.GOARCH]
	err := error(unix.EPERM)
	if want, ok := changeOf(a, c); ok {
		err = d.as(c, func(from *caller) error { return d.chmod(c, from, want) })
	} else if want, ok := creationOf(a, c); ok {
		err = d.as(c, func(from *caller) error { return d.create(c, from, want) })
		if err == nil {
			return // the descriptor was sent, and that is the answer
		}
	}
	d.notify.send(answer{id: c.id, errno: -int32(errnoOf(err))})
}

// changeOf decodes a call that changes a mode. It reports false for any other
// call.
func changeOf(a abi, c call) (change, bool) {
	arg := func(i int) uint32 { return uint32(c.args[i]) }
	switch int64(c.nr) {
	case a.chmod:
		return change{dir: unix.AT_FDCWD, address: c.args[0], mode: arg(1)}, true
	case a.fchmod:
		return change{dir: int32(arg(0)), bare: true, mode: arg(1)}, true
	case a.fchmodat:
		return change{dir: int32(arg(0)), address: c.args[1], mode: arg(2)}, true
	case callFchmodat2:
		return change{dir: int32(arg(0)), address: c.args[1], mode: arg(2), flags: uint64(arg(3))}, true
	default:
		return change{}, false
	}
}

// chmod changes the mode of the file that the caller means.
func (d *deputy) chmod(c call, from *caller, want change) error {
	if want.flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	file, err := from.file(want)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	// Only a call that still waits proves that everything read so far belonged
	// to the caller: the id of a thread that has ended may be given to a new
	// one.
	if !d.notify.waits(c.id) {
		return unix.ESRCH
	}
	return setMode(file, want.mode)
}

// as calls do with exactly the file access rights of the caller. So the kernel
// itself decides what is allowed, and no separate check can be out of date. It
// refuses callers in another user namespace, and callers that even a process
// with their own rights may not look into.
func (d *deputy) as(c call, do func(*caller) error) error {
	if c.thread == 0 {
		return unix.EPERM
	}
	from := &caller{thread: int(c.thread)}
	var err error
	if from.identity, err = credentials(from.thread); err != nil {
		return unix.EPERM
	}
	act := func() error {
		if from.findNamespaces(from.thread) != nil || from.users != d.self.users {
			return unix.EPERM
		}
		return do(from)
	}
	if d.self.same(from.identity) {
		return act()
	}
	return d.self.become(from.identity, act)
}

// file opens the file whose mode is to change.
func (c *caller) file(want change) (int, error) {
	if want.bare {
		return c.descriptor(want.dir)
	}
	path, err := c.text(want.address)
	if err != nil {
		return -1, err
	}
	if path == "" && want.flags&unix.AT_EMPTY_PATH != 0 {
		return c.directory(want.dir)
	}
	return c.open(want.dir, path, want.flags&unix.AT_SYMLINK_NOFOLLOW != 0)
}

// setMode changes the mode of an open file. A directory keeps the setuid and
// setgid bits that it has: they do not make anything run with other rights, and
// they belong to the user.
func setMode(file int, mode uint32) error {
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return err
	}
	kept := uint32(0)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return unix.EOPNOTSUPP
	case unix.S_IFDIR:
		kept = stat.Mode & bits
	}
	mode = mode&modeMask&^bits | mode&kept
	return unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(file), mode, 0)
}
