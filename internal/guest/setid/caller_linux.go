package setid

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// identity is what the kernel goes by when it decides what a thread may do to
// files.
type identity struct {
	uid, gid  int    // those for files
	groups    string // supplementary
	effective uint64 // capabilities
	users     string // the user namespace in which they count
	mounts    string // the mount namespace
	umask     uint32
}

// identify returns the identity of a thread.
func identify(thread int) (identity, error) {
	i, err := credentials(thread)
	if err == nil {
		err = i.findNamespaces(thread)
	}
	return i, err
}

// credentials returns the part of it that is told to anybody.
func credentials(thread int) (i identity, err error) {
	status, err := os.ReadFile(procPath(thread, "status"))
	if err != nil {
		return identity{}, err
	}
	for line := range bytes.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":\t")
		switch name {
		case "Uid":
			i.uid, err = lastID(value)
		case "Gid":
			i.gid, err = lastID(value)
		case "Groups":
			i.groups = strings.TrimSpace(value)
		case "CapEff":
			i.effective, err = strconv.ParseUint(value, 16, 64)
		case "Umask":
			var umask uint64
			umask, err = strconv.ParseUint(value, 8, 32)
			i.umask = uint32(umask)
		}
		if err != nil {
			return identity{}, fmt.Errorf("status of a thread: %w", err)
		}
	}
	return i, nil
}

// findNamespaces completes it. The kernel tells this to those alone who may look
// into the thread.
func (i *identity) findNamespaces(thread int) (err error) {
	if i.users, err = os.Readlink(procPath(thread, "ns/user")); err == nil {
		i.mounts, err = os.Readlink(procPath(thread, "ns/mnt"))
	}
	return err
}

// lastID returns the last of the ids in a line: that for files.
func lastID(value string) (int, error) {
	return strconv.Atoi(value[strings.LastIndexByte(value, '\t')+1:])
}

// same reports whether other may do with files exactly what i may, if they are in
// one user namespace.
func (i identity) same(other identity) bool {
	return i.uid == other.uid && i.gid == other.gid && i.groups == other.groups && i.effective == other.effective
}

func procPath(thread int, name string) string {
	return "/proc/" + strconv.Itoa(thread) + "/" + name
}

// caller is the thread that waits for an answer.
type caller struct {
	thread int
	identity
}

// text reads a path from the memory of the caller.
func (c *caller) text(address uint64) (string, error) {
	memory, err := unix.Open(procPath(c.thread, "mem"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(memory)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Pread(memory, buf, int64(address))
	if err != nil || n <= 0 {
		return "", unix.EFAULT
	}
	end := bytes.IndexByte(buf[:n], 0)
	switch {
	case end >= 0:
		return string(buf[:end]), nil
	case n < len(buf):
		return "", unix.EFAULT
	default:
		return "", unix.ENAMETOOLONG
	}
}

// open opens a handle on what a path means to the caller; it has to be closed.
// With nofollow a symbolic link at its end is meant itself.
func (c *caller) open(dir int32, path string, nofollow bool) (int, error) {
	if fd, ok := ownDescriptor(path); ok && !nofollow {
		return c.descriptor(fd)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if nofollow {
		how.Flags |= unix.O_NOFOLLOW
	}
	from, err := c.base(dir, path)
	if err != nil {
		return -1, err
	}
	defer from.close()
	return from.open(path, how)
}

// base is a directory where a caller begins with a path.
type base struct {
	fd    int
	scope uint64 // what keeps the path where the caller may go
}

// base opens the directory where the caller would begin with a path. In another
// root than ours, a relative path must stay below its beginning, because
// nothing else keeps its links within that root.
func (c *caller) base(dir int32, path string) (base, error) {
	if path == "" {
		return base{}, unix.ENOENT
	}
	root, err := c.handle("root")
	if err != nil {
		return base{}, err
	}
	if strings.HasPrefix(path, "/") {
		return base{fd: root, scope: unix.RESOLVE_IN_ROOT}, nil
	}
	defer unix.Close(root)
	from := base{}
	if !c.sharesRoot(root) {
		from.scope = unix.RESOLVE_BENEATH
	}
	from.fd, err = c.directory(dir)
	return from, err
}

func (b base) close() { unix.Close(b.fd) }

// attempts is how often a path is looked up that changes meanwhile.
const attempts = 16

// open opens a path as the caller would. Links of /proc lead nowhere: they
// would lead to what this process has.
func (b base) open(path string, how unix.OpenHow) (int, error) {
	how.Resolve = b.scope | unix.RESOLVE_NO_MAGICLINKS
	for range attempts {
		fd, err := unix.Openat2(b.fd, path, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EAGAIN, unix.EINTR: // something on the way was renamed
		case unix.EXDEV:
			return -1, unix.EPERM
		default:
			return -1, err
		}
	}
	return -1, unix.EPERM
}

// directory opens a handle on the caller's directory with a descriptor.
func (c *caller) directory(dir int32) (int, error) {
	if dir == unix.AT_FDCWD {
		return c.handle("cwd")
	}
	return c.descriptor(dir)
}

// descriptor opens a handle on a file that the caller has open.
func (c *caller) descriptor(fd int32) (int, error) {
	handle, err := c.handle("fd/" + strconv.Itoa(int(fd)))
	if err == unix.ENOENT {
		err = unix.EBADF
	}
	return handle, err
}

func (c *caller) handle(name string) (int, error) {
	return unix.Open(procPath(c.thread, name), unix.O_PATH|unix.O_CLOEXEC, 0)
}

// sharesRoot reports whether the caller's root is also this process's.
func (c *caller) sharesRoot(root int) bool {
	var theirs, ours unix.Stat_t
	if unix.Fstat(root, &theirs) != nil || unix.Stat("/", &ours) != nil {
		return false
	}
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	return err == nil && mounts == c.mounts && theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}

// ownDescriptor tells which of its descriptors a process means by a path. It is
// how the C library sets the mode of a file that it must not follow.
func ownDescriptor(path string) (int32, bool) {
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		if name, ok := strings.CutPrefix(path, dir); ok {
			fd, err := strconv.ParseUint(name, 10, 31)
			return int32(fd), err == nil
		}
	}
	return 0, false
}
