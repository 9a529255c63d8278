package setid

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// identity is everything that the kernel looks at when it decides what a thread
// may do with files.
type identity struct {
	uid, gid  int    // the user and group ids for file access
	groups    string // the supplementary groups
	effective uint64 // the effective capabilities
	users     string // the user namespace in which the capabilities count
	mounts    string // the mount namespace
	umask     uint32
}

// identify returns the complete identity of a thread.
func identify(thread int) (identity, error) {
	i, err := credentials(thread)
	if err == nil {
		err = i.findNamespaces(thread)
	}
	return i, err
}

// credentials returns the part of a thread's identity that any process may
// read.
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

// findNamespaces adds the namespaces. The kernel shows them only to processes
// that may look into the thread.
func (i *identity) findNamespaces(thread int) (err error) {
	if i.users, err = os.Readlink(procPath(thread, "ns/user")); err == nil {
		i.mounts, err = os.Readlink(procPath(thread, "ns/mnt"))
	}
	return err
}

// lastID returns the last id in a line, which is the one for file access.
func lastID(value string) (int, error) {
	return strconv.Atoi(value[strings.LastIndexByte(value, '\t')+1:])
}

// same reports whether other may do exactly the same with files as i, provided
// that both are in the same user namespace.
func (i identity) same(other identity) bool {
	return i.uid == other.uid && i.gid == other.gid && i.groups == other.groups && i.effective == other.effective
}

func procPath(thread int, name string) string {
	return "/proc/" + strconv.Itoa(thread) + "/" + name
}

// caller is the thread whose system call waits for an answer.
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

// open opens a file as an O_PATH descriptor, by a path as the caller would see
// it. The descriptor must be closed. With nofollow, a symbolic link at the end
// of the path is not followed.
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

// base is the directory at which a caller's path starts.
type base struct {
	fd    int
	scope uint64 // flags of openat2 that keep the path where the caller may go
}

// base opens the directory at which the caller's path starts. If the caller has
// a different root directory, a relative path must stay below its start,
// because nothing else would keep its symbolic links within the caller's root.
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

// attempts is how often the lookup of a path is tried when the path changes
// meanwhile.
const attempts = 16

// open opens a path as the caller would. Magic links of /proc are not followed:
// they would lead to files that this process has open.
func (b base) open(path string, how unix.OpenHow) (int, error) {
	how.Resolve = b.scope | unix.RESOLVE_NO_MAGICLINKS
	for range attempts {
		fd, err := unix.Openat2(b.fd, path, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EAGAIN, unix.EINTR: // a directory on the path was renamed
		case unix.EXDEV:
			return -1, unix.EPERM
		default:
			return -1, err
		}
	}
	return -1, unix.EPERM
}

// directory opens the caller's directory with a given descriptor.
func (c *caller) directory(dir int32) (int, error) {
	if dir == unix.AT_FDCWD {
		return c.handle("cwd")
	}
	return c.descriptor(dir)
}

// descriptor opens a file that the caller has open, by its descriptor.
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

// sharesRoot reports whether the caller has the same root directory as this
// process.
func (c *caller) sharesRoot(root int) bool {
	var theirs, ours unix.Stat_t
	if unix.Fstat(root, &theirs) != nil || unix.Stat("/", &ours) != nil {
		return false
	}
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	return err == nil && mounts == c.mounts && theirs.Dev == ours.Dev && theirs.Ino == ours.Ino
}

// ownDescriptor returns the descriptor that a process means by a path such as
// /proc/self/fd/3. The C library uses such paths to set the mode of a file
// without following a symbolic link.
func ownDescriptor(path string) (int32, bool) {
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		if name, ok := strings.CutPrefix(path, dir); ok {
			fd, err := strconv.ParseUint(name, 10, 31)
			return int32(fd), err == nil
		}
	}
	return 0, false
}
