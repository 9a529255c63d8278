//go:build linux || darwin

package treedir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// filesIn opens the files of one directory after the other for reading. It asks the
// system directly, since package os makes twice as many calls for a file that is read
// once: among a hundred thousand small files, most of the time is that.
type filesIn struct {
	of  *os.Root // whose files were opened last; nil for none
	dir *os.File // the same directory
	fd  int      // its descriptor
}

// open opens a regular file in a directory. It never blocks, not even on a named pipe,
// and follows no link.
func (d *filesIn) open(of *os.Root, name string) (*readFile, error) {
	base := path.Base(name)
	if !isLocalBase(base) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err := d.enter(of); err != nil {
		return nil, err
	}
	at := d.fd
	var there unix.Stat_t
	err := again(func() error { return unix.Fstatat(at, base, &there, unix.AT_SYMLINK_NOFOLLOW) })
	if err == nil && there.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNoFile
	}
	f := &readFile{name: name}
	if err == nil {
		err = again(func() (err error) {
			f.fd, err = unix.Openat(at, base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			return err
		})
	}
	if errors.Is(err, unix.ELOOP) { // it is a link now
		return nil, errNoFile
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if f.first, err = f.stat(); err != nil || !f.first.Mode.IsRegular() {
		return nil, errors.Join(err, f.Close(), errNoFile)
	}
	return f, nil
}

// enter opens a directory, unless it is the one of the last file.
func (d *filesIn) enter(of *os.Root) error {
	if d.of == of {
		return nil
	}
	d.leave()
	dir, err := of.OpenFile(".", os.O_RDONLY|nonblock, 0)
	if err == nil {
		d.of, d.dir, d.fd = of, dir, int(dir.Fd())
	}
	return err
}

// leave closes the directory.
func (d *filesIn) leave() {
	if d.dir != nil {
		_ = d.dir.Close() // it was only read
	}
	*d = filesIn{}
}

// readFile is an open file. It implements [Opened].
type readFile struct {
	fd    int
	name  string
	first Entry // what it was when it was opened; told once, instead of another call
}

// Close closes the file, once.
func (f *readFile) Close() error {
	fd := f.fd
	f.fd = -1
	return unix.Close(fd)
}

// Read implements [io.Reader].
func (f *readFile) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	err = again(func() error {
		n, err = unix.Read(f.fd, p)
		return err
	})
	switch {
	case err != nil:
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Stat implements [Opened].
func (f *readFile) Stat() (Entry, error) {
	if e := f.first; e.Name != "" {
		f.first = Entry{}
		return e, nil
	}
	return f.stat()
}

func (f *readFile) stat() (Entry, error) {
	var s unix.Stat_t
	if err := again(func() error { return unix.Fstat(f.fd, &s) }); err != nil {
		return Entry{}, &fs.PathError{Op: "stat", Path: f.name, Err: err}
	}
	return Entry{
		Name: f.name, Mode: modeOf(uint32(s.Mode)), Size: s.Size,
		ModTime: s.Mtim.Nano(), ChangeTime: s.Ctim.Nano(), Inode: s.Ino,
	}, nil
}

// modeOf is the mode of a file as package os tells it.
func modeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&unix.S_IFMT != unix.S_IFREG {
		m |= fs.ModeIrregular // what it is does not matter
	}
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// again makes a system call again that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
