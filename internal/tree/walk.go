package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Entry is a file, directory or link that [Walk] has found.
type Entry struct {
	Dir  *os.Root // the open directory that holds the entry
	Base string   // the name in that directory
	Name string   // the slash-separated path from the start of the walk
	Info fs.FileInfo
}

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
func WalkPast(dir *os.Root, visit func(Entry) error, unreadable func(Entry, error) error) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	w := walker{visit: visit, unreadable: unreadable}
	return w.walk(dir, names, "", 1)
}

type walker struct {
	visit      func(Entry) error
	unreadable func(Entry, error) error
}

// walk visits what is in dir.
func (w *walker) walk(dir *os.Root, names []named, name string, depth int) error {
	for _, n := range names {
		info, err := n.in(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		e := Entry{Dir: dir, Base: n.base, Name: path.Join(name, n.base), Info: info}
		if err := w.visit(e); err != nil {
			if info.IsDir() && errors.Is(err, fs.SkipDir) {
				continue
			}
			return err
		}
		if !info.IsDir() {
			continue
		}
		if err := w.descend(e, depth); err != nil {
			return err
		}
	}
	return nil
}

// descend walks through the directory of an entry.
func (w *walker) descend(e Entry, depth int) error {
	if depth >= MaxDepth {
		return w.unreadable(e, fmt.Errorf("%w: directories are nested deeper than %d", ErrTooLarge, MaxDepth))
	}
	sub, err := openDir(e)
	if err != nil {
		return w.unreadable(e, err)
	}
	if sub == nil {
		return nil
	}
	defer sub.Close()
	names, err := list(sub)
	if err != nil {
		return w.unreadable(e, err)
	}
	return w.walk(sub, names, e.Name, depth+1)
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

// maxNames is how many names of one directory are held in memory at once.
const maxNames = 1 << 21

// maxInfos is how many files of one directory are described when their names
// are read, which is faster. The others are described when they are visited.
const maxInfos = 4096

// named is a name in a directory, with what it stands for if that is known.
type named struct {
	base string
	info fs.FileInfo
}

// in describes the name in its directory.
func (n named) in(dir *os.Root) (fs.FileInfo, error) {
	if n.info != nil {
		return n.info, nil
	}
	return dir.Lstat(n.base)
}

// list returns what is in a directory, sorted by name.
func list(dir *os.Root) ([]named, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxInfos)
	found := make([]named, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			info = nil // it is asked for again
		}
		found = append(found, named{e.Name(), info})
	}
	if err == nil {
		err = readNames(f, func(name string) { found = append(found, named{base: name}) })
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(found, func(a, b named) int { return strings.Compare(a.base, b.base) })
	return found, nil
}

// namesIn returns the names in a directory, unchanged and sorted. They need not
// be valid UTF-8.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	err = readNames(f, func(name string) { names = append(names, name) })
	slices.Sort(names)
	return names, err
}

// readNames calls add with each name that is still to be read from a directory.
func readNames(f *os.File, add func(string)) error {
	for n := 0; ; {
		some, err := f.Readdirnames(4096)
		for _, name := range some {
			add(name)
		}
		n += len(some)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > maxNames:
			return fmt.Errorf("%w: a directory of more than %d files", ErrTooLarge, maxNames)
		}
	}
}
