package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Entry is a file, directory or link that [Walk] has found.
type Entry struct {
	Dir  *os.Root // the open directory that holds the entry
	Base string   // the name in that directory
	Name string   // the slash-separated path from the start of the walk
	Info fs.FileInfo

	beside *listing
}

// Beside reports whether there was something of a name in the directory that holds
// the entry, when [Walk] listed it.
func (e Entry) Beside(base string) bool { return e.beside.has(base) }

// Walk calls visit for everything below dir, sorted by name, and for a
// directory before its content. Links are visited and never followed. What
// disappears in the meantime is left out. Walk stops at the first error. visit
// may return [fs.SkipDir] for a directory.
func Walk(dir *os.Root, visit func(Entry) error) error {
	return WalkPast(dir, visit, func(_ Entry, err error) error { return err })
}

// WalkPast is [Walk], but calls unreadable for a directory whose content cannot
// be listed, after visit was called for it. It leaves out that content, or what
// is still missing of it, and goes on if unreadable returns nil. An error for
// dir itself is returned.
//
// Directories are listed by several goroutines, before they are visited. visit and
// unreadable are called by one, that of the caller.
func WalkPast(dir *os.Root, visit func(Entry) error, unreadable func(Entry, error) error) error {
	l, err := list(dir, "", 1)
	if err == nil {
		err = l.readRest()
	}
	if err != nil {
		return err
	}
	w := walker{visit: visit, unreadable: unreadable, ahead: newAhead()}
	defer w.ahead.end()
	w.ahead.add(l)
	return w.walk(l)
}

type walker struct {
	visit      func(Entry) error
	unreadable func(Entry, error) error
	ahead      *ahead
}

// walk visits what is in a directory.
func (w *walker) walk(l *listing) error {
	described := 0
	for i := range l.names {
		if l.names[i].info == nil && i >= described {
			described = i + l.describe(i)
		}
		n := l.names[i]
		info, err := n.in(l.root)
		l.names[i].info = nil // which is most of the memory
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		e := l.entry(n, info)
		if err := w.visit(e); err != nil {
			if !info.IsDir() || !errors.Is(err, fs.SkipDir) {
				return err
			}
			w.ahead.skip(n.folder)
			continue
		}
		if !info.IsDir() {
			continue
		}
		if err := w.descend(e, n.folder, l.depth); err != nil {
			return err
		}
	}
	return nil
}

// descend walks through the directory of an entry.
func (w *walker) descend(e Entry, f *folder, depth int) error {
	if depth >= MaxDepth {
		return w.unreadable(e, fmt.Errorf("%w: directories are nested deeper than %d", ErrTooLarge, MaxDepth))
	}
	l, err := w.listing(e, f, depth+1)
	if err != nil {
		return w.unreadable(e, err)
	}
	if l == nil {
		return nil
	}
	defer l.close()
	return w.walk(l)
}

// listing lists the directory of an entry, unless that is done. It returns nil if
// something else has taken the directory's place.
func (w *walker) listing(e Entry, f *folder, depth int) (*listing, error) {
	l := w.ahead.take(f)
	if l != nil && l.rest == nil {
		return l, nil
	}
	if l == nil {
		sub, err := openDir(e)
		if err != nil || sub == nil {
			return nil, err
		}
		if l, err = list(sub, e.Name, depth); err != nil {
			return nil, errors.Join(err, sub.Close())
		}
	}
	if err := l.readRest(); err != nil {
		l.close()
		return nil, err
	}
	w.ahead.add(l)
	return l, nil
}

// openDir opens the directory of an entry. It returns nil if something else has
// taken the directory's place, because os.Root would follow a link there.
func openDir(e Entry) (*os.Root, error) {
	sub, err := openRoot(e.Dir, e.Base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		if now, lerr := e.Dir.Lstat(e.Base); lerr != nil || !now.IsDir() {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	if is, err := sub.Stat("."); err != nil || !os.SameFile(is, e.Info) {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}
