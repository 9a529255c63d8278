package writewatch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch is a watch of a directory. It is safe for concurrent use.
type Watch struct {
	dir    string // without links
	events *os.File
	ended  chan struct{} // closed when nobody listens any more

	mu      sync.Mutex      // guards what follows, and is held while events are read
	written map[uint64]bool // inodes
	lost    bool            // some are missing
	buf     []byte
}

// Open watches a directory, whose path must have no links. The caller closes the watch.
func Open(dir string) (*Watch, error) {
	// The kernel opens the file of each event for the listener: a pipe must not block it.
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch writers: %w", err)
	}
	// A file that is not blocking can be waited for.
	w := &Watch{dir: dir, events: os.NewFile(uintptr(fd), "fanotify"), ended: make(chan struct{}), written: map[uint64]bool{}, buf: make([]byte, 64<<10)}
	err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, unix.FAN_MODIFY|unix.FAN_CLOSE_WRITE, unix.AT_FDCWD, dir)
	if err != nil {
		close(w.ended)
		return nil, errors.Join(fmt.Errorf("watch writers: %w", err), w.events.Close())
	}
	go w.listen()
	return w, nil
}

// listen reads events before the kernel drops them, until Close.
func (w *Watch) listen() {
	defer close(w.ended)
	raw, err := w.events.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (done bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drain(int(fd))
		return false // wait for more
	})
}

// Written returns the inodes of the files that were written since the last call. all
// says that there are no others.
func (w *Watch) Written() (inodes map[uint64]bool, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := w.events.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { w.drain(int(fd)) })
	}
	inodes, all = w.written, !w.lost && err == nil
	w.written, w.lost = map[uint64]bool{}, false
	return inodes, all
}

// drain reads what events there are. The caller holds mu.
func (w *Watch) drain(fd int) {
	for {
		n, err := unix.Read(fd, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			w.lost = true
		}
		if err != nil || n <= 0 {
			return
		}
		const size = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
		for rest := w.buf[:n]; len(rest) >= size; {
			event := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&rest[0]))
			if int(event.Event_len) < size || int(event.Event_len) > len(rest) {
				w.lost = true
				break
			}
			w.note(event)
			rest = rest[event.Event_len:]
		}
	}
}

// note notes the file of an event, if it is in the directory.
func (w *Watch) note(event *unix.FanotifyEventMetadata) {
	if event.Mask&unix.FAN_Q_OVERFLOW != 0 || event.Fd < 0 {
		w.lost = true
		return
	}
	fd := int(event.Fd)
	defer unix.Close(fd)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil && !strings.HasPrefix(name, w.dir+"/") && w.dir != "/" {
		return
	}
	var info unix.Stat_t
	if err != nil || unix.Fstat(fd, &info) != nil || len(w.written) >= maxFiles {
		w.lost = true
		return
	}
	w.written[info.Ino] = true
}

// Close ends the watch.
func (w *Watch) Close() error {
	err := w.events.Close()
	<-w.ended
	return err
}
