package objstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/x/pygent/internal/treedir"
)

// settled is how old the change time of a file must be when the file is read,
// for the file to count as unchanged when its times are the same later. A file
// that is written through mmap gets a new time only when the kernel writes it
// back: by default, within 30 seconds and the 5 of its flusher.
const settled = 35 * time.Second

// Cache remembers what the last tree that was taken from a source was read as,
// so that unchanged files are not read again. The zero Cache is empty and ready
// to use. It is used by one Take at a time.
type Cache struct {
	items []taken // in the order of a scan

	of         *Store // which had the content of all files
	generation int    // of it then
}

// Dir returns a directory of the tree that was taken last, as a tree of its own; zero
// if it has none of that name. That takes no look at the others, as [Store.FS] does.
func (c *Cache) Dir(name string) Tree {
	at, found := c.find(name)
	if !found || c.items[at].item.Kind != treedir.Dir {
		return Tree{}
	}
	return Tree{c.items[at].item.Content}
}

// Inode returns the inode of something in the tree that was taken last; 0 if that is
// not known.
func (c *Cache) Inode(name string) uint64 {
	if at, found := c.find(name); found {
		return c.items[at].Inode
	}
	return 0
}

func (c *Cache) find(name string) (at int, found bool) { return findIn(c.items, name) }

func findIn(items []taken, name string) (at int, found bool) {
	return slices.BinarySearchFunc(items, name, func(t taken, name string) int { return byPath(t.Name, name) })
}

// taken is an entry with what is stored of it.
type taken struct {
	Entry
	item    Item
	trusted bool // the times of the file tell when it changes
}

// byPath compares two names in the order of a scan: by their elements.
func byPath(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return cmp.Compare(rank(a[i]), rank(b[i]))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// rank makes the end of an element come before all else.
func rank(b byte) int {
	if b == '/' {
		return -1
	}
	return int(b)
}
