package ownership

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Tree gives a directory, and everything below it, to a user and a group. It also
// clears the setuid and setgid bits of files. What has not changed since a moment of the
// kernel's clock, in nanoseconds, stays as it is: nobody gave it away in the meantime.
// Tree continues after errors, and returns the first of them with their number. Files on a
// read-only mount stay as they are.
//
// The tree may have been made to defeat this: names need not be valid text, and
// paths may be longer than the kernel accepts. So Tree moves up and down by
// single steps, and knows only the current directory.
func Tree(dir *os.File, uid, gid int, since int64) error {
	fd, err := unix.Openat(int(dir.Fd()), ".", directoryFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	w := &walk{uid: uid, gid: gid, since: since, fd: fd}
	defer func() { unix.Close(w.fd) }()
	for pending := w.visit(); ; {
		if len(pending) == 0 {
			if len(w.above) == 0 {
				w.settleCurrent()
				return w.err()
			}
			if pending, err = w.leave(); err != nil {
				w.note("..", err)
				return w.err()
			}
			continue
		}
		last := len(pending) - 1
		name := pending[last]
		pending = w.enter(name, pending[:last])
	}
}

// directoryFlags open a directory for reading, and refuse a symbolic link.
const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// walk is the state of a walk through a tree.
type walk struct {
	uid, gid int
	since    int64
	fd       int    // the current directory
	above    []step // from the start to the parent of the current directory
	failed   int
	errs     []error // the first ones
}

// step is a directory on the path to the current one.
type step struct {
	id      fileID
	pending []string // its subdirectories that are still to be visited
}

// fileID identifies a file.
type fileID struct{ dev, ino uint64 }

func idOf(fd int) (fileID, error) {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	return fileID{uint64(stat.Dev), stat.Ino}, err
}

// visit settles the files of the current directory and returns the names of its
// subdirectories.
func (w *walk) visit() (directories []string) {
	dup, err := unix.FcntlInt(uintptr(w.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		w.note(".", err)
		return nil
	}
	dir := os.NewFile(uintptr(dup), ".")
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if w.settle(name) {
				directories = append(directories, name)
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				w.note(".", err)
			}
			return directories
		}
	}
}

// settle gives a file to the owner. It reports whether the file is a directory: a
// directory is given away only after everything in it.
func (w *walk) settle(name string) (isDirectory bool) {
	var stat unix.Stat_t
	if err := unix.Fstatat(w.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.note(name, err)
		return false
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true
	}
	if w.changed(&stat) {
		w.give(name, &stat)
	}
	return false
}

// changed reports whether a file has changed since the moment that was given. Nobody can
// set the time of that.
func (w *walk) changed(stat *unix.Stat_t) bool { return stat.Ctim.Nano() >= w.since }

// give gives a file, or a directory that was not entered, to the owner.
func (w *walk) give(name string, stat *unix.Stat_t) {
	if stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		w.note(name, w.strip(name))
	}
	if w.isForeign(stat) {
		w.note(name, unix.Fchownat(w.fd, name, w.uid, w.gid, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func (w *walk) isForeign(stat *unix.Stat_t) bool {
	return int(stat.Uid) != w.uid || int(stat.Gid) != w.gid
}

// strip clears the setuid and setgid bits of a file.
func (w *walk) strip(name string) error {
	fd, err := unix.Openat(w.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	return unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), stat.Mode&0o1777, 0)
}

// settleCurrent gives the current directory to the owner.
func (w *walk) settleCurrent() {
	var stat unix.Stat_t
	err := unix.Fstat(w.fd, &stat)
	if err == nil && w.isForeign(&stat) && w.changed(&stat) {
		err = unix.Fchownat(w.fd, "", w.uid, w.gid, unix.AT_EMPTY_PATH)
	}
	w.note(".", err)
}

// enter moves down into a directory and returns the names of its subdirectories.
// A directory that cannot be entered is given away as it is, and pending is
// returned.
func (w *walk) enter(name string, pending []string) []string {
	id, err := idOf(w.fd)
	below := -1
	if err == nil {
		below, err = unix.Openat(w.fd, name, directoryFlags, 0)
	}
	if err != nil {
		w.note(name, err)
		var stat unix.Stat_t
		if unix.Fstatat(w.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && w.changed(&stat) {
			w.give(name, &stat)
		}
		return pending
	}
	w.above = append(w.above, step{id: id, pending: pending})
	unix.Close(w.fd)
	w.fd = below
	return w.visit()
}

// errMoved means that a directory on the path back up was moved during the walk.
var errMoved = errors.New("a directory was moved meanwhile")

// leave gives the current directory away, moves up, and returns the pending
// subdirectories there.
func (w *walk) leave() ([]string, error) {
	last := w.above[len(w.above)-1]
	up, err := unix.Openat(w.fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errMoved, err)
	}
	w.settleCurrent()
	unix.Close(w.fd)
	w.fd, w.above = up, w.above[:len(w.above)-1]
	if id, err := idOf(up); err != nil || id != last.id {
		return nil, errMoved
	}
	return last.pending, nil
}

const (
	maxErrors    = 5   // errors that are reported in full
	maxErrorName = 100 // bytes of a name
)

// note records an error about a file of the current directory. Two kinds are
// ignored: the file has vanished, or it is on a read-only mount, where no command
// can have made anything.
func (w *walk) note(name string, err error) {
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EROFS) {
		return
	}
	w.failed++
	if len(w.errs) < maxErrors {
		w.errs = append(w.errs, fmt.Errorf("%q, %d directories down: %w", name[:min(len(name), maxErrorName)], len(w.above), err))
	}
}

func (w *walk) err() error {
	if more := w.failed - len(w.errs); more > 0 {
		return errors.Join(append(w.errs, fmt.Errorf("and %d errors more", more))...)
	}
	return errors.Join(w.errs...)
}
