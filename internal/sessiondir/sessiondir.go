// Package sessiondir keeps sessions, each in a directory of its own below one for
// all of them:
//
//	ID/session.json   what is known of the session; its owner says what that is
//	ID/history.json   the conversation, which package journal writes
//	ID/lock           locked while a process has the session open
//
// session.json is written beside and then renamed, so a reader sees the old or the
// new one, also after kill -9. Only the process that holds the lock changes a session
// or removes it; anybody may read session.json at any time. A directory without
// session.json is a session that has not begun, or one whose removal was cut short.
//
// [RecapLine] and [LastWords] say in a few words what there is of a conversation that goes
// on. All faces say it in these words.
package sessiondir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/owner"
)

// The files of a session.
const (
	InfoFile    = "session.json"
	HistoryFile = "history.json"
	lockName    = "lock"

	unfinished = InfoFile + ".new"
	removing   = InfoFile + ".removed" // in a session that is being removed, in place of InfoFile
	// MaxInfo is the largest session.json that is read, in bytes.
	MaxInfo = 1 << 20
	// emptyHistory is the most bytes of a conversation without a message.
	emptyHistory = 8
)

var (
	// ErrInUse is the error for a session that is open, in this process or another.
	ErrInUse = errors.New("the session is open in another process")
	// errMissing is the error of an entry whose session.json is missing.
	errMissing = errors.New(InfoFile + " is missing")
)

var validID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$`)

// IsID reports whether a text can be the name of a session.
func IsID(id string) bool { return validID.MatchString(id) }

// Session is a session that this process has open. Its methods must not be called at
// the same time.
type Session struct {
	root *os.Root
	lock *os.File
}

// openWithin is how long Open waits for a lock. Whoever lists sessions holds it for an
// instant, and whoever has one open for long.
const openWithin = 200 * time.Millisecond

// Open opens the session in a directory, and makes it if there is none. The directory
// and what is in it are this user's alone. The error matches ErrInUse if it is open
// already.
func Open(dir string) (*Session, error) {
	if !IsID(filepath.Base(dir)) {
		return nil, fmt.Errorf("%q cannot be the name of a session", owner.Printable(filepath.Base(dir)))
	}
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return nil, err
	}
	lock, err := lockSession(root, os.O_CREATE, openWithin)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	s := &Session{root: root, lock: lock}
	if isBeingRemoved(root, ".") { // its removal was cut short
		err = errors.Join(s.empty(), root.RemoveAll(removing))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// lockSession locks the session in a directory for this holder alone.
func lockSession(root *os.Root, flag int, within time.Duration) (*os.File, error) {
	for until := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		f, err := root.OpenFile(lockName, os.O_RDWR|flag, 0o600)
		if err != nil {
			return nil, err
		}
		err = filelock.Lock(f)
		late := time.Now().After(until)
		if errors.Is(err, filelock.ErrHeld) {
			err = ErrInUse
			if late { // who it is takes a look at all locks of the system
				err = inUse(f)
			}
		}
		if err == nil {
			err = isNamed(root, f)
		}
		if err == nil {
			return f, nil
		}
		filelock.Close(f)
		if !errors.Is(err, ErrInUse) || late {
			return nil, err
		}
	}
}

// inUse is [ErrInUse] of a session whose lock somebody holds.
func inUse(lock *os.File) error {
	pid, program := filelock.Holder(lock)
	if pid == 0 || pid == os.Getpid() {
		return ErrInUse
	}
	return fmt.Errorf("%w, %s", ErrInUse, filelock.Process(pid, program))
}

// isNamed returns an error if a locked file is not the lock any more, because the
// session was removed meanwhile.
func isNamed(root *os.Root, f *os.File) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := root.Lstat(lockName)
	if err == nil && !os.SameFile(opened, named) {
		err = fs.ErrNotExist
	}
	return err
}

// Info returns session.json. The error matches fs.ErrNotExist if there is none.
func (s *Session) Info() ([]byte, error) { return readInfo(s.root, InfoFile) }

// WriteInfo replaces session.json.
func (s *Session) WriteInfo(data []byte) error {
	f, err := s.root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.root.Remove(unfinished))
	}
	if err := s.root.Rename(unfinished, InfoFile); err != nil {
		return errors.Join(err, s.root.Remove(unfinished))
	}
	return nil
}

// SetAside keeps a damaged session.json beside, under the name returned.
func (s *Session) SetAside(now time.Time) (name string, err error) {
	name = InfoFile + ".damaged-" + now.UTC().Format("20060102-150405")
	return name, s.root.Rename(InfoFile, name)
}

// Close lets others open the session.
func (s *Session) Close() error { return errors.Join(filelock.Close(s.lock), s.root.Close()) }

// Remove removes the session and closes it.
func (s *Session) Remove() error {
	dir := s.root.Name()
	if err := s.root.Rename(InfoFile, removing); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, s.Close())
	}
	if err := s.empty(); err != nil {
		return errors.Join(err, s.Close())
	}
	var err error
	if !onWindows {
		err = s.root.Remove(lockName)
	}
	err = errors.Join(err, s.root.RemoveAll(removing), s.Close())
	if onWindows { // where an open file cannot be removed
		err = errors.Join(err, os.Remove(filepath.Join(dir, lockName)))
	}
	gone := os.Remove(dir)
	if !errors.Is(gone, fs.ErrExist) && !errors.Is(gone, fs.ErrNotExist) { // else somebody begins, or has removed, a session of the same name
		err = errors.Join(err, gone)
	}
	return err
}

// empty removes the files of the session.
func (s *Session) empty() error {
	names, err := fs.ReadDir(s.root.FS(), ".")
	for _, name := range names {
		if name.Name() != lockName && name.Name() != removing {
			err = errors.Join(err, s.root.RemoveAll(name.Name()))
		}
	}
	return err
}

// Entry is a session that List found.
type Entry struct {
	ID   string
	Info []byte    // session.json; nil with Err
	Used time.Time // when session.json was written, or the conversation without one
	Open bool      // a process has it open
	Err  error     // why session.json cannot be read
}

// List returns the sessions in a directory, those that were used last first. It reads
// only the session.json of each. A directory that is not there has none.
func List(dir string) ([]Entry, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		if !name.IsDir() || !IsID(name.Name()) {
			continue
		}
		if e, ok := read(root, name.Name()); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, newer)
	return entries, nil
}

// read returns the session with a name; false if it has not begun.
func read(root *os.Root, id string) (e Entry, ok bool) {
	e = Entry{ID: id, Open: isOpen(root, id)}
	if info, err := root.Lstat(id + "/" + InfoFile); err == nil {
		e.Used = info.ModTime()
		e.Info, e.Err = readInfo(root, id+"/"+InfoFile)
		return e, true
	}
	history, err := root.Lstat(id + "/" + HistoryFile)
	if err != nil || e.Open || isBeingRemoved(root, id) || history.Size() <= emptyHistory {
		return e, false
	}
	e.Used, e.Err = history.ModTime(), errMissing
	return e, true
}

// isBeingRemoved reports whether the removal of a session goes on, or was cut short.
func isBeingRemoved(root *os.Root, id string) bool {
	_, err := root.Lstat(id + "/" + removing)
	return err == nil
}

// readInfo reads a session.json.
func readInfo(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(InfoFile + " is not a file")
	case info.Size() > MaxInfo:
		return nil, fmt.Errorf("%s has %d bytes, and may have %d", InfoFile, info.Size(), MaxInfo)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxInfo))
}

// isOpen reports whether a process has a session open. Of a system without locks that
// is not known.
func isOpen(root *os.Root, id string) bool {
	f, err := root.OpenFile(id+"/"+lockName, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer filelock.Close(f)
	return errors.Is(filelock.Share(f), filelock.ErrHeld)
}

// InUse returns an error that matches ErrInUse if a process has a session open, and
// names the process where the system tells.
func InUse(dir, id string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	if !isOpen(root, id) {
		return nil
	}
	lock, err := root.Open(id + "/" + lockName)
	if err != nil {
		return nil
	}
	defer lock.Close()
	return inUse(lock)
}

// Remove removes a session that no process has open. The error matches ErrInUse for
// one that is, and fs.ErrNotExist if there is none.
func Remove(dir, id string) error {
	if !IsID(id) {
		return fs.ErrNotExist
	}
	root, err := os.OpenRoot(filepath.Join(dir, id))
	if err != nil {
		return err
	}
	lock, err := lockSession(root, os.O_CREATE, openWithin)
	if err != nil {
		return errors.Join(err, root.Close())
	}
	return (&Session{root: root, lock: lock}).Remove()
}

// newer compares sessions by when they were used.
func newer(a, b Entry) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID)) }

const onWindows = runtime.GOOS == "windows"
