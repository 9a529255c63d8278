package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
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
	return walk(dir, "", 1, visit)
}

func walk(dir *os.Root, name string, depth int, visit func(Entry) error) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		info, err := dir.Lstat(base)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		e := Entry{Dir: dir, Base: base, Name: path.Join(name, base), Info: info}
		if err := visit(e); err != nil {
			if info.IsDir() && errors.Is(err, fs.SkipDir) {
				continue
			}
			return err
		}
		if !info.IsDir() {
			continue
		}
		if err := descend(e, depth, visit); err != nil {
			return err
		}
	}
	return nil
}

// descend walks through the directory of an entry.
func descend(e Entry, depth int, visit func(Entry) error) error {
	if depth >= MaxDepth {
		return fmt.Errorf("%w: directories are nested deeper than %d", ErrTooLarge, MaxDepth)
	}
	sub, err := openDir(e)
	if err != nil || sub == nil {
		return err
	}
	defer sub.Close()
	return walk(sub, e.Name, depth+1, visit)
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

// namesIn returns the names in a directory, unchanged and sorted. They need not
// be valid UTF-8.
func namesIn(dir *os.Root) ([]string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		some, err := f.Readdirnames(4096)
		names = append(names, some...)
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, err
		case len(names) > maxNames:
			return nil, fmt.Errorf("%w: a directory of more than %d files", ErrTooLarge, maxNames)
		}
	}
}
