package treedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/exchange"
	"github.com/x/pygent/internal/tree"
)

// Local is a directory of this machine, as a source and as a target. No name
// and no symbolic link leads out of it, even while others change it. Only one
// goroutine at a time may use it, and each [Local.Reader].
type Local struct {
	root   *os.Root
	id     string
	way    []step                                // the directories that are open
	files  filesIn                               // where files were opened last; see Read
	swap   func(dir *os.Root, a, b string) error // exchange, but in tests
	give   func(dir *os.Root, base string)       // see New; may be nil
	made   []string                              // names of the steps since the last Sync
	many   bool                                  // there were more than maxMade
	waited bool                                  // for others in vain, since then
}

// step is an open directory on the way to a file.
type step struct {
	name string // from the top
	root *os.Root
}

// OpenLocal opens a directory.
func OpenLocal(dir string) (*Local, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &Local{root: root, id: abs, swap: exchange.Exchange}, nil
}

// WithoutExchange has steps made as where the system cannot exchange two names,
// which tests need.
func (l *Local) WithoutExchange() {
	l.swap = func(*os.Root, string, string) error { return errors.ErrUnsupported }
}

// New returns a directory that is open, without an ID. give, which may be nil, is
// called with each file and directory that a step makes, before others see it
// under its name. The caller keeps root, and has to call Leave instead of Close.
func New(root *os.Root, give func(dir *os.Root, base string)) *Local {
	return &Local{root: root, swap: exchange.Exchange, give: give}
}

// Leave closes what calls before have left open for those that may follow.
func (l *Local) Leave() error { return l.back(0) }

// ID returns the absolute path of the directory, without symbolic links.
func (l *Local) ID() string { return l.id }

// Close releases the directory.
func (l *Local) Close() error { return errors.Join(l.back(0), l.root.Close()) }

// Scan implements [Source].
func (l *Local) Scan(ctx context.Context, yield func(Entry) error) error {
	return l.ScanBelow(ctx, "", yield)
}

// ScanBelow is Scan for what is in a directory of the tree, which is not reached
// through links.
func (l *Local) ScanBelow(ctx context.Context, dir string, yield func(Entry) error) error {
	top, err := l.open(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	before := dir // the directory that the last entry was
	return tree.WalkPast(top, func(e tree.Entry) error {
		entry := entryOf(e.Info)
		if entry.Name = e.Name; dir != "" {
			entry.Name = dir + "/" + e.Name
		}
		entry.Ignores = before == DirOf(entry.Name) && e.Beside(IgnoreFile)
		before = "/"
		switch entry.Mode.Type() {
		case fs.ModeSymlink:
			entry.Target, entry.Err = e.Dir.Readlink(e.Base)
		case fs.ModeDir:
			before = entry.Name
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return yield(entry)
	}, func(e tree.Entry, err error) error {
		return yield(Entry{Name: path.Join(dir, e.Name), Mode: e.Info.Mode(), Err: err})
	})
}

// open opens a directory of the tree for the caller.
func (l *Local) open(dir string) (*os.Root, error) {
	defer l.back(0)
	root, err := l.dirOf(dir + "/")
	if err != nil {
		return nil, err
	}
	return root.OpenRoot(".")
}

// IgnoreFile is the name of the files that say what is left out.
const IgnoreFile = ".gitignore"

// entryOf describes what a name stands for.
func entryOf(info fs.FileInfo) Entry {
	e := Entry{Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	e.ChangeTime, e.Inode = system(info)
	return e
}

// Reader implements [Sharer].
func (l *Local) Reader() Reader { return &Local{root: l.root, id: l.id} }

// Read implements [Source].
func (l *Local) Read(ctx context.Context, names iter.Seq[string], yield func(string, Opened, error) error) error {
	defer l.back(0)
	defer l.files.leave()
	for name := range names {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := l.read(name, yield); err != nil {
			return err
		}
	}
	return nil
}

func (l *Local) read(name string, yield func(string, Opened, error) error) error {
	dir, err := l.dirOf(name)
	if errors.Is(err, errNoDir) {
		err = errNoFile
	}
	if err != nil {
		return yield(name, nil, err)
	}
	f, err := l.files.open(dir, name)
	if err != nil {
		return yield(name, nil, err)
	}
	defer f.Close()
	return yield(name, f, nil)
}

// openFileIn opens a regular file in a directory. It never blocks, not even on a
// named pipe, and follows no link.
func openFileIn(dir *os.Root, base string) (*os.File, error) {
	there, err := dir.Lstat(base)
	if err == nil && !there.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if is, err := f.Stat(); err != nil || !os.SameFile(is, there) {
		return nil, errors.Join(err, f.Close(), errNoFile)
	}
	return f, nil
}

var errNoFile = fmt.Errorf("no regular file now: %w", fs.ErrNotExist)

// errNoDir is returned for a name whose directory is not one.
var errNoDir = &ConflictError{Why: "its directory is gone, or something else is in its place"}

// dirOf opens the directory of a name, which must not be reached through links.
// It is closed with the next call for another directory, by its owner.
func (l *Local) dirOf(name string) (*os.Root, error) {
	dir := DirOf(name)
	for n := len(l.way); n > 0; n-- {
		if at := l.way[n-1].name; dir == at || strings.HasPrefix(dir, at+"/") {
			break
		}
		if err := l.back(n - 1); err != nil {
			return nil, err
		}
	}
	at, root := "", l.root
	if n := len(l.way); n > 0 {
		at, root = l.way[n-1].name, l.way[n-1].root
	}
	for dir != at {
		rest := strings.TrimPrefix(strings.TrimPrefix(dir, at), "/")
		base, _, _ := strings.Cut(rest, "/")
		sub, err := openDirIn(root, base)
		if err != nil {
			return nil, err
		}
		at, root = path.Join(at, base), sub
		l.way = append(l.way, step{at, root})
	}
	return root, nil
}

// back closes the directories on the way but for the first n.
func (l *Local) back(n int) (err error) {
	for _, s := range l.way[n:] {
		err = errors.Join(err, s.root.Close())
	}
	l.way = l.way[:n]
	return err
}

// openDirIn opens a directory in another one. It follows no link, and waits for
// no pipe, which its name with a "." after it does not lead to.
func openDirIn(root *os.Root, base string) (*os.Root, error) {
	if !isLocalBase(base) {
		return nil, fmt.Errorf("%q: %w", base, fs.ErrInvalid)
	}
	there, err := root.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !there.IsDir() {
		return nil, errNoDir
	}
	if err != nil {
		return nil, err
	}
	sub, err := root.OpenRoot(base + string(filepath.Separator) + ".")
	if err != nil && isReplaced(err) {
		return nil, errNoDir
	}
	if err != nil {
		return nil, err
	}
	if is, err := sub.Stat("."); err != nil || !os.SameFile(is, there) {
		return nil, errors.Join(errNoDir, err, sub.Close())
	}
	return sub, nil
}

// isReplaced reports whether a directory could not be opened because something
// else is in its place now: a link that leads out of the root has an error of
// package os that is not the system's.
func isReplaced(err error) bool {
	var no syscall.Errno
	return !errors.As(err, &no) || errors.Is(no, fs.ErrNotExist) || no == syscall.ENOTDIR || no == syscall.ELOOP
}

// isLocalBase reports whether a name from a tree names something in a directory
// on this system too.
func isLocalBase(base string) bool {
	return ValidBase(base) && filepath.IsLocal(base) && !strings.ContainsRune(base, filepath.Separator)
}
