package writewatch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch is a watch of a directory. It is safe for concurrent use.
type Watch struct {
	dir      string // without links
	listener *listener

	// What follows is guarded by the listener's mutex.
	written Files
	inside  Files // that were open for writing for long, by commands as it seems
	missed  bool  // something was written of which the kernel has not told
}

// listener listens for all watches of this process that are in one mount. The kernel tells
// each listener of each write to the mount, also of those outside all directories, and a
// listener for each of many agents would slow down everybody who writes, until the kernel
// drops events.
type listener struct {
	mount  uint64
	events *os.File
	ended  chan struct{} // closed when nobody listens any more

	mu      sync.Mutex // held while some events are read
	watches []*Watch
	failed  int // reads in a row
	buf     [atOnce * eventSize]byte
}

// listeners has the listeners of this process by their mount. None is left when all
// watches are closed.
var listeners = struct {
	sync.Mutex
	of map[uint64]*listener
}{of: map[uint64]*listener{}}

const eventSize = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))

// Open watches a directory, whose path must have no links. The caller closes the watch.
func Open(dir string) (*Watch, error) {
	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &info); err != nil {
		return nil, fmt.Errorf("watch writers: %w", err)
	}
	listeners.Lock()
	defer listeners.Unlock()
	l, isThere := listeners.of[info.Mnt_id]
	if !isThere {
		var err error
		if l, err = newListener(info.Mnt_id); err != nil {
			return nil, fmt.Errorf("watch writers: %w", err)
		}
	}
	l.drain() // of what was written until now
	w := &Watch{dir: dir, listener: l, written: Files{}, inside: Files{}}
	l.mu.Lock()
	l.watches = append(l.watches, w)
	l.mu.Unlock()
	// A mark is one of the mount, and is gone if the number is one of another mount by now.
	err := l.control(func(fd int) error {
		return unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, unix.FAN_MODIFY|unix.FAN_CLOSE_WRITE, unix.AT_FDCWD, dir)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch writers: %w", err), w.leave())
	}
	return w, nil
}

// newListener starts a listener that hears nothing yet. The caller has locked listeners.
func newListener(mount uint64) (*listener, error) {
	// The kernel opens the file of each event for the listener: a pipe must not block it.
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	// A file that is not blocking can be waited for.
	l := &listener{mount: mount, events: os.NewFile(uintptr(fd), "fanotify"), ended: make(chan struct{})}
	listeners.of[mount] = l
	go l.listen()
	return l, nil
}

// Close ends the watch.
func (w *Watch) Close() error {
	listeners.Lock()
	defer listeners.Unlock()
	return w.leave()
}

// leave ends the watch, and the listener with the last of its watches. The caller has
// locked listeners.
func (w *Watch) leave() error {
	l := w.listener
	l.mu.Lock()
	before := len(l.watches)
	l.watches = slices.DeleteFunc(l.watches, func(other *Watch) bool { return other == w })
	clear(w.written)
	wasLast := before > 0 && len(l.watches) == 0
	l.mu.Unlock()
	if !wasLast {
		return nil
	}
	delete(listeners.of, l.mount)
	err := l.events.Close()
	<-l.ended
	return err
}

// listen reads events before the kernel drops them, until the listener ends.
func (l *listener) listen() {
	defer close(l.ended)
	raw, err := l.events.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (done bool) {
		for l.read(int(fd)) {
			continue
		}
		return false // wait for more
	})
}

// control calls a function with the descriptor of the events. It fails after the end.
func (l *listener) control(do func(fd int) error) error {
	raw, err := l.events.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = do(int(fd)) })
	return errors.Join(failed, err)
}

// Bounds of what is read. Each event of a read opens a file, and other parts of this
// process need some, too. The kernel keeps no more than queued events by default; where
// others write without end, Written waits for those alone that are there.
const (
	atOnce = 64
	queued = 16 << 10
)

// drain reads the events that are there. After the end there are none.
func (l *listener) drain() {
	_ = l.control(func(fd int) error {
		for range queued / atOnce {
			if !l.read(fd) {
				break
			}
		}
		return nil
	})
}

// Written returns the files that were written since the last call, as far as they are
// known.
func (w *Watch) Written() Files {
	w.listener.drain()
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	files := w.written
	w.written = Files{}
	return files
}

// How long Late waits. A writer whose processor is taken away between the two is back by
// then.
const (
	lateWait  = 5 * time.Millisecond
	lateWaits = 30
)

// Late returns those of some files that others have written although the kernel did not say
// so in time: what is written can be seen before the kernel tells of it, and what is written
// to a mapped file is told when that is closed. The writer has the file open until then. A
// file that stays open, and is not told of, is waited for once. It is in open, each time:
// most likely it is one of a command, such as the log of a job, and what is told later, when
// it is closed at the latest, proves that it is not.
func (w *Watch) Late(paths []string) (late, open Files) {
	late, open = Files{}, Files{}
	for range lateWaits {
		paths = slices.DeleteFunc(paths, func(path string) bool { return !w.isWrittenByOthers(path, open) })
		maps.Copy(late, w.Written()) // also of those that were closed just now
		paths = slices.DeleteFunc(paths, func(path string) bool {
			inode, _, err := identify(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
			return err != nil || late.Has(path, inode)
		})
		if len(paths) == 0 {
			return late, open
		}
		time.Sleep(lateWait)
	}
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	for _, path := range paths {
		if inode, born, err := identify(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW); err == nil && len(w.inside) < maxFiles {
			w.inside[inode], open[inode] = born, born
		}
	}
	return late, open
}

// isWrittenByOthers reports whether a program has a file open for writing that is not taken
// for a command. It notes in open whether one has that is.
func (w *Watch) isWrittenByOthers(path string, open Files) bool {
	inode, born, ok := written(path)
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	was, known := w.inside[inode]
	if ok && known && was == born {
		open[inode] = born
		return false
	}
	return ok
}

// IsOpen reports whether a program has a file open for writing.
func (w *Watch) IsOpen(path string) bool {
	_, _, ok := written(path)
	return ok
}

// written returns the inode of a file that a program has open for writing, and when it was
// made. The kernel refuses a lease of such a file (fcntl(2), F_SETLEASE).
func written(path string) (inode uint64, born unix.StatxTimestamp, ok bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, born, false
	}
	defer unix.Close(fd)
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
		return 0, born, false
	}
	inode, born, err = identify(fd, "", unix.AT_EMPTY_PATH)
	return inode, born, err == nil
}

// read reads some events, and reports whether there may be more.
func (l *listener) read(fd int) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := unix.Read(fd, l.buf[:])
	switch {
	case errors.Is(err, unix.EINTR):
		return true
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EBADF), err == nil && n <= 0:
		return false
	case err != nil: // the kernel could not open the file of an event, and has dropped that
		l.miss()
		l.failed++
		return l.failed < queued
	}
	l.failed = 0
	for rest := l.buf[:n]; len(rest) >= eventSize; {
		event := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&rest[0]))
		if int(event.Event_len) < eventSize || int(event.Event_len) > len(rest) {
			break
		}
		l.note(event)
		rest = rest[event.Event_len:]
	}
	return true
}

// miss notes that the kernel has dropped an event of which nobody knows the file.
func (l *listener) miss() {
	for _, w := range l.watches {
		w.missed = true
	}
}

// note notes the file of an event for the watches whose directory has it. An event without
// a file says that the kernel has dropped some.
func (l *listener) note(event *unix.FanotifyEventMetadata) {
	if event.Fd < 0 {
		l.miss()
		return
	}
	fd := int(event.Fd)
	defer unix.Close(fd)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		l.miss()
		return
	}
	for _, w := range l.watches {
		if w.dir != "/" && !strings.HasPrefix(name, w.dir+"/") {
			continue
		}
		inode, born, err := identify(fd, "", unix.AT_EMPTY_PATH)
		if err != nil || len(w.written) >= maxFiles {
			w.missed = true
			continue
		}
		w.written[inode] = born
	}
}

// Missed reports whether files were written since the last call that Written does not have:
// the kernel keeps only so many events, and drops one whose file it cannot open, because the
// process has too many open, for example.
func (w *Watch) Missed() bool {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	missed := w.missed
	w.missed = false
	return missed
}

// identify returns the inode of a file, and when that was made; zero where the file system
// does not tell.
func identify(dir int, name string, flags int) (inode uint64, born unix.StatxTimestamp, err error) {
	var info unix.Statx_t
	err = unix.Statx(dir, name, flags, unix.STATX_INO|unix.STATX_BTIME, &info)
	return info.Ino, info.Btime, err
}

// Files are files that were written. An inode may be used again for another file, which
// has another time of its making.
type Files map[uint64]unix.StatxTimestamp

// Has reports whether the file of a path and an inode is one of them.
func (f Files) Has(path string, inode uint64) bool {
	born, ok := f[inode]
	if !ok {
		return false
	}
	now, made, err := identify(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && now == inode && made == born
}
