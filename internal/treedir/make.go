package treedir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/x/pygent/internal/exchange"
	"github.com/x/pygent/internal/tree"
)

// Make implements [Target].
func (l *Local) Make(ctx context.Context, s Step, content io.Reader) error {
	dir, err := l.dirOf(s.Name)
	if errors.Is(err, errNoDir) && s.New.Kind == None {
		return nil // it is removed already
	}
	if err != nil {
		return err
	}
	m := maker{Step: s, ctx: ctx, dir: dir, base: path.Base(s.Name), part: s.Aside + ".part", content: content, swap: l.swap, give: l.give}
	if !isLocalBase(m.base) {
		return fs.ErrInvalid
	}
	defer l.alone(ctx, dir)()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.note(s.Name)
	err = m.make()
	if errors.Is(err, fs.ErrNotExist) {
		err = errNoDir // all else that can be missing is looked for
	}
	return err
}

// lockWait is how long a step waits for others in its directory.
const lockWait = 2 * time.Second

// alone keeps the steps of other processes out of a directory until release is
// called: when a process or a guest was killed, what it had begun may go on for
// some milliseconds, and here the same step is made again. It waits for nobody for
// long, because any program may lock a directory, and waits only once between two
// Syncs.
func (l *Local) alone(ctx context.Context, dir *os.Root) (release func()) {
	d, err := dir.Open(".")
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(lockWait); isLocked(d) && !l.waited; {
		l.waited = time.Now().After(end)
		pause := time.NewTimer(time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			l.waited = true
		}
	}
	return func() { _ = d.Close() }
}

// maxMade is after how many steps Sync writes all of the file system, which may
// have much of others, instead of each file.
const maxMade = 100

// Sync implements [Target].
func (l *Local) Sync(context.Context) error {
	err := l.syncMade()
	l.made, l.many, l.waited = nil, false, false
	return errors.Join(err, l.back(0))
}

func (l *Local) syncMade() error {
	switch {
	case onWindows:
		return nil // what is opened for reading cannot be synced there
	case l.many:
		return exchange.SyncAll(l.root)
	}
	for _, name := range l.made {
		if err := l.syncFile(name); err != nil {
			return err
		}
	}
	return nil
}

// syncFile puts a file, and its name, on stable storage.
func (l *Local) syncFile(name string) error {
	dir, err := l.dirOf(name)
	if errors.Is(err, errNoDir) {
		return nil // its directory is gone, by another step
	}
	if err != nil {
		return err
	}
	f, err := openFileIn(dir, path.Base(name))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return SyncDir(dir, ".")
}

func (l *Local) note(name string) {
	if l.many = l.many || len(l.made) == maxMade; !l.many {
		l.made = append(l.made, name)
	}
}

// maker makes one step in the directory of its name. It uses two more names
// there. At part it writes what is new, which is nobody's until it is complete.
// At Aside is what is new and complete, or what was there before and is being
// looked at: if this process is killed, settle tells them apart.
type maker struct {
	Step
	ctx     context.Context
	dir     *os.Root
	base    string
	part    string
	content io.Reader
	swap    func(dir *os.Root, a, b string) error
	give    func(dir *os.Root, base string) // may be nil
}

func (m *maker) make() error {
	if m.Again {
		if err := m.settle(); err != nil {
			return err
		}
	}
	switch {
	case m.New.Kind == Dir:
		return m.makeDir()
	case m.Old.Kind == Dir:
		return m.removeDir()
	case m.New.Kind == None:
		return m.removeFile()
	case m.Old.Kind == None:
		return m.create()
	}
	return m.replace()
}

// look returns what is at a name of the directory. The content of a file is
// only read if its size is that of the old or the new one.
func (m *maker) look(name string) (Item, fs.FileInfo, error) {
	info, err := m.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Item{}, nil, nil
	}
	if err != nil {
		return Item{}, nil, err
	}
	item := Item{Mode: info.Mode().Perm()}
	switch info.Mode().Type() {
	case fs.ModeDir:
		item.Kind = Dir
	case fs.ModeSymlink:
		item = Item{Kind: Link}
		item.Target, err = m.dir.Readlink(name)
	case 0:
		item.Kind, item.Size = File, info.Size()
		if item.Size == m.Old.Size || item.Size == m.New.Size {
			item.Content, item.Size, err = m.read(name)
		}
	default:
		item.Kind = LeftOut
	}
	return item, info, err
}

// parts are buffers for a part of a file.
var parts = sync.Pool{New: func() any {
	b := make([]byte, ChunkSize)
	return &b
}}

func (m *maker) read(name string) (Hash, int64, error) {
	f, err := openFileIn(m.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Hash{}, 0, nil // it is something else now
	}
	if err != nil {
		return Hash{}, 0, err
	}
	defer f.Close()
	buf := parts.Get().(*[]byte)
	defer parts.Put(buf)
	return Split(f, *buf, func(kind byte, raw []byte) (Hash, error) {
		return NameOf(kind, raw), context.Cause(m.ctx)
	})
}

// errChanged is returned where something else is there than was expected.
var errChanged = &ConflictError{Why: "it was changed meanwhile"}

func (m *maker) makeDir() error {
	now, _, err := m.look(m.base)
	if err != nil {
		return err
	}
	switch {
	case now.Kind == None && m.Old.Kind == None:
		if err := m.dir.Mkdir(m.base, m.New.Mode); err != nil {
			return err
		}
		m.given(m.base)
	case now.Kind != Dir:
		return errChanged
	case m.Old.Kind == None && !m.Again:
		return nil // somebody else's
	}
	return m.dir.Chmod(m.base, m.New.Mode)
}

func (m *maker) removeDir() error {
	now, _, err := m.look(m.base)
	if err != nil || now.Kind == None {
		return err
	}
	if now.Kind != Dir {
		return errChanged
	}
	err = m.dir.Remove(m.base)
	if errors.Is(err, fs.ErrExist) {
		return &ConflictError{Why: "something else is in it"}
	}
	return err
}

// removeFile moves a file aside, and looks at it there, where nobody finds it.
func (m *maker) removeFile() error {
	now, _, err := m.look(m.base)
	if err != nil || now.Kind == None {
		return err
	}
	if !now.Same(m.Old) {
		return errChanged
	}
	if err := m.dir.Rename(m.base, m.Aside); err != nil {
		return err
	}
	if err := m.lookAside(); err != nil {
		return m.undone(err, m.putBack())
	}
	return m.dir.Remove(m.Aside)
}

// lookAside returns nil if what was moved aside is what was there before, and will stay
// so: who has it open could write to a file that nobody finds any more. A conflict says
// what is wrong with it.
func (m *maker) lookAside() error {
	if m.Old.Kind == File && m.isWritten() {
		return &ConflictError{Why: "a program has it open for writing"}
	}
	now, _, err := m.look(m.Aside)
	if err == nil && !now.Same(m.Old) {
		err = errChanged
	}
	return err
}

// isWritten reports whether a program is known to have what is aside open for writing.
func (m *maker) isWritten() bool {
	f, err := openFileIn(m.dir, m.Aside)
	if err != nil {
		return false
	}
	defer f.Close()
	return hasWriter(f)
}

// undone returns why a step was undone, and what went wrong with that. Of two conflicts
// the second says more.
func (m *maker) undone(why, undoing error) error {
	var conflict *ConflictError
	switch {
	case undoing == nil:
		return why
	case errors.As(why, &conflict):
		return undoing
	}
	return errors.Join(why, undoing)
}

// create gives a new file its name only if nothing else has it.
func (m *maker) create() error {
	if done, err := m.taken(); done || err != nil {
		return err
	}
	if err := m.write(); err != nil {
		return errors.Join(err, m.gone(m.part))
	}
	err := m.name(m.part, m.base)
	if errors.Is(err, fs.ErrExist) {
		err = errors.Join(m.gone(m.part), m.mustBeNew())
	}
	return err
}

// taken reports whether what is new is there already. If something else is, that
// is a conflict.
func (m *maker) taken() (bool, error) {
	now, _, err := m.look(m.base)
	switch {
	case err != nil || now.Kind == None:
		return false, err
	case !now.Same(m.New):
		return false, &ConflictError{Why: "something else is there meanwhile"}
	}
	return true, nil
}

func (m *maker) mustBeNew() error {
	_, err := m.taken()
	return err
}

// name gives a file a second name that nothing else has, and takes the first one
// away.
func (m *maker) name(from, to string) error {
	err := m.dir.Link(from, to)
	if err == nil {
		return m.dir.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// This file system has no second names.
	if _, err := m.dir.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return m.dir.Rename(from, to)
}

// write writes what is new at part.
func (m *maker) write() error {
	if m.New.Kind == Link {
		err := m.dir.Symlink(m.New.Target, m.part)
		if err == nil {
			m.given(m.part)
		}
		return err
	}
	f, err := m.dir.OpenFile(m.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	m.given(m.part)
	if err = tree.WriteSparse(f, m.content, m.New.Size); err == nil {
		err = f.Chmod(m.New.Mode)
	}
	if err = errors.Join(err, f.Close()); err == nil && m.Times {
		// Some file systems keep no times, which is no reason to fail.
		_ = m.dir.Chtimes(m.part, time.Time{}, time.Unix(0, m.New.ModTime))
	}
	return err
}

// given passes on the name of something new.
func (m *maker) given(name string) {
	if m.give != nil {
		m.give(m.dir, name)
	}
}

// replace exchanges a file with the new one, and looks at what came out.
func (m *maker) replace() error {
	now, info, err := m.look(m.base)
	switch {
	case err != nil:
		return err
	case now.Same(m.New):
		return nil
	case !now.Same(m.Old):
		return errChanged
	case m.Old.Kind == File && m.New.Kind == File && m.Old.Content == m.New.Content:
		return m.dir.Chmod(m.base, m.New.Mode)
	}
	if err := m.write(); err != nil {
		return errors.Join(err, m.gone(m.part))
	}
	keepOwner(m.dir, m.part, info)
	if err := m.dir.Rename(m.part, m.Aside); err != nil {
		return errors.Join(err, m.gone(m.part))
	}
	err = m.swap(m.dir, m.Aside, m.base)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return m.replaceSlowly()
	case errors.Is(err, fs.ErrNotExist):
		return m.undone(errChanged, m.gone(m.Aside))
	case err != nil:
		return errors.Join(err, m.gone(m.Aside))
	}
	if err := m.lookAside(); err != nil {
		return m.undone(err, m.exchangeBack())
	}
	return m.dir.Remove(m.Aside)
}

// exchangeBack undoes an exchange. What comes out should be what is new.
func (m *maker) exchangeBack() error {
	if err := m.swap(m.dir, m.Aside, m.base); errors.Is(err, fs.ErrNotExist) {
		return m.putBack()
	} else if err != nil {
		return m.keep()
	}
	now, _, err := m.look(m.Aside)
	if err != nil {
		return err
	}
	if !now.Same(m.New) {
		return m.keep()
	}
	return m.dir.Remove(m.Aside)
}

// replaceSlowly replaces a file without an exchange: for a moment it is not
// there.
func (m *maker) replaceSlowly() error {
	if err := m.dir.Rename(m.Aside, m.part); err != nil {
		return err
	}
	if err := m.dir.Rename(m.base, m.Aside); err != nil {
		return errors.Join(err, m.gone(m.part))
	}
	if err := m.lookAside(); err != nil {
		return m.undone(err, errors.Join(m.gone(m.part), m.putBack()))
	}
	err := m.name(m.part, m.base)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it, without what was there
		err = m.undone(errChanged, m.gone(m.part))
	}
	if err != nil {
		return err
	}
	return m.dir.Remove(m.Aside)
}

// putBack gives what is aside its name back. If something else has that name, it
// is kept under another one.
func (m *maker) putBack() error {
	err := m.name(m.Aside, m.base)
	if errors.Is(err, fs.ErrExist) {
		return m.keep()
	}
	return err
}

// keep leaves what is aside where people find it.
func (m *maker) keep() error {
	kept := m.base + ".kept" + m.Aside[len(m.Aside)-8:]
	if m.name(m.Aside, kept) != nil {
		kept = m.Aside // it may be too long
	}
	return &ConflictError{Why: "it was changed while it was replaced", Kept: path.Join(path.Dir(m.Name), kept)}
}

// gone removes a temporary file.
func (m *maker) gone(name string) error {
	err := m.dir.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settle brings the directory to where the step was not begun, or is made, after
// a process that was making it was killed.
func (m *maker) settle() error {
	if err := m.gone(m.part); err != nil {
		return err
	}
	aside, _, err := m.look(m.Aside)
	if err != nil || aside.Kind == None {
		return err
	}
	now, _, err := m.look(m.base)
	switch {
	case err != nil:
		return err
	case aside.Same(m.New):
		return m.dir.Remove(m.Aside) // it was not exchanged yet
	case now.Kind == None:
		return m.putBack()
	case aside.Same(m.Old):
		return m.dir.Remove(m.Aside)
	case now.Same(m.New):
		return m.exchangeBack() // the step finds it changed then
	}
	return m.keep()
}

// SyncDir puts the names in a directory on stable storage, where the system can
// do that.
func SyncDir(root *os.Root, name string) error {
	if onWindows {
		return nil
	}
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if isUnsupported(err) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// isUnsupported reports whether a system cannot do what it was asked for.
func isUnsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL)
}

const onWindows = runtime.GOOS == "windows"
