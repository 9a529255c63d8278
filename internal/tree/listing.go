package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// maxNames is how many names of one directory are held in memory at once.
const maxNames = 1 << 21

// maxInfos is how many files of one directory are described when their names
// are read, which is faster. The others are described when they are visited.
const maxInfos = 4096

// infosAhead is how many of the others are described at once, by several goroutines,
// when a walk comes to the first of them.
const infosAhead = 1024

// listing is an open directory of a walk and the names in it.
type listing struct {
	root  *os.Root
	name  string // of the directory, from the start of the walk
	depth int    // of what is in it
	names []named
	rest  *os.File // has more names, after maxInfos; else nil, and the names are sorted
}

// named is a name in a directory, with what it stands for if that is known.
type named struct {
	base   string
	info   fs.FileInfo
	folder *folder // of a directory that may be listed ahead
}

// in describes the name in its directory.
func (n named) in(dir *os.Root) (fs.FileInfo, error) {
	if n.info != nil {
		return n.info, nil
	}
	return dir.Lstat(n.base)
}

// list lists a directory, or the beginning of a large one.
func list(dir *os.Root, name string, depth int) (*listing, error) {
	f, err := dir.OpenFile(".", os.O_RDONLY|nonblock, 0) // without the flag, package os makes four more calls
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(maxInfos)
	l := &listing{root: dir, name: name, depth: depth, names: make([]named, 0, len(entries)+1)}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			info = nil // it is asked for again
		}
		l.names = append(l.names, named{base: e.Name(), info: info})
	}
	var more []string
	if err == nil {
		more, err = f.Readdirnames(1)
	}
	if len(more) > 0 {
		l.names, l.rest = append(l.names, named{base: more[0]}), f
		return l, nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	l.sort()
	return l, errors.Join(err, f.Close())
}

// readRest reads the names that list has left.
func (l *listing) readRest() error {
	if l.rest == nil {
		return nil
	}
	err := readNames(l.rest, func(name string) { l.names = append(l.names, named{base: name}) })
	err = errors.Join(err, l.rest.Close())
	l.rest = nil
	l.sort()
	return err
}

// describe describes the next names, from one on, and returns how many. What fails is
// asked for again when it is visited.
func (l *listing) describe(from int) int {
	some := l.names[from:min(from+infosAhead, len(l.names))]
	part := max(len(some)/min(runtime.GOMAXPROCS(0), maxListers), infosAhead/16)
	var team sync.WaitGroup
	for names := range slices.Chunk(some, part) {
		team.Go(func() {
			for i := range names {
				n := &names[i]
				if info, err := n.in(l.root); err == nil {
					n.info = info
				}
			}
		})
	}
	team.Wait()
	return len(some)
}

func (l *listing) sort() {
	slices.SortFunc(l.names, func(a, b named) int { return strings.Compare(a.base, b.base) })
}

// has reports whether a name is in the directory.
func (l *listing) has(base string) bool {
	_, found := slices.BinarySearchFunc(l.names, base, func(n named, base string) int { return strings.Compare(n.base, base) })
	return found
}

// entry returns one of the names as what it stands for.
func (l *listing) entry(n named, info fs.FileInfo) Entry {
	e := Entry{Dir: l.root, Base: n.base, Name: n.base, Info: info, beside: l}
	if l.name != "" {
		e.Name = l.name + "/" + n.base
	}
	return e
}

// folders returns what is to be listed ahead in a directory, as a list.
func (l *listing) folders() (first, last *folder) {
	if l.rest != nil || l.depth >= MaxDepth {
		return nil, nil
	}
	for i := range l.names {
		n := &l.names[i]
		if n.info == nil || !n.info.IsDir() {
			continue
		}
		n.folder = &folder{Entry: l.entry(*n, n.info), depth: l.depth + 1}
		if first == nil {
			first = n.folder
		} else {
			last.next = n.folder
		}
		last = n.folder
	}
	return first, last
}

// close closes the directory.
func (l *listing) close() {
	if l.rest != nil {
		_ = l.rest.Close() // it was only read
		l.rest = nil
	}
	_ = l.root.Close()
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
