// Package inventory finds out which files of a workspace are new, changed or
// removed since an earlier look. It compares sizes and times, and reads no file.
// Everything is bounded, because the workspace may hold anything.
package inventory

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/transient"
)

// Bounds of a look at a workspace.
const (
	mostFiles  = 5000 // files and directories
	mostOpened = 300  // directories that are looked into
	longest    = 1000 // bytes of a path; longer ones are left out
)

// closed are directories that are not looked into: a version control's own files,
// and what programs install or cache.
var closed = []string{".git", ".hg", ".svn", "node_modules", "__pycache__", "venv", ".venv"}

// File is a file or directory of a workspace.
type File struct {
	Path string // relative to the workspace
	Size int64
	Time time.Time // of its last modification
	Dir  bool
}

// ListFunc returns what is in a directory, at most limit files; more says that
// there are others.
type ListFunc func(ctx context.Context, dir string, limit int) (files []File, more bool, err error)

// Inventory is what a workspace held at one moment. The zero value knows of
// nothing.
type Inventory struct {
	files map[string]File // without directories
	whole bool            // there were no others
}

// Take looks at a workspace until ctx ends, the top first. What it has not seen by
// then is left out, and what cannot be listed as well.
func Take(ctx context.Context, list ListFunc) Inventory {
	inv := Inventory{files: map[string]File{}, whole: true}
	left, open := mostFiles, []string{"."}
	for n := 0; n < len(open); n++ {
		if n >= mostOpened || left <= 0 || ctx.Err() != nil {
			inv.whole = false
			break
		}
		files, more, err := list(ctx, open[n], left)
		if err != nil || more {
			inv.whole = false
		}
		files = files[:min(len(files), left)]
		left -= len(files)
		for _, f := range files {
			name := path.Base(f.Path)
			f.Path = path.Join(open[n], name)
			switch {
			case transient.Is(name):
			case len(f.Path) > longest || name == "." || name == ".." || name == "/":
				inv.whole = false
			case !f.Dir:
				inv.files[f.Path] = f
			case !slices.Contains(closed, name):
				open = append(open, f.Path)
			}
		}
	}
	return inv
}

// Kind is what became of a file between two looks.
type Kind string

// The kinds. Same is also that of a file of which nothing is known before.
const (
	Same    Kind = ""
	New     Kind = "new"
	Changed Kind = "changed"
	Removed Kind = "removed"
)

// Change is a file, and what became of it.
type Change struct {
	File
	Kind Kind
}

// Since compares the inventory with an earlier one of the same workspace. It
// returns at most limit files: those that differ first, and of these what is at the
// top first. rest is how many others there are; whole says that there are no more than those.
func (inv Inventory) Since(before Inventory, limit int) (changes []Change, rest int, whole bool) {
	all := make([]Change, 0, len(inv.files))
	for name, f := range inv.files {
		all = append(all, Change{File: f, Kind: before.kind(name, f)})
	}
	if inv.whole {
		for name, f := range before.files {
			if _, there := inv.files[name]; !there {
				all = append(all, Change{File: f, Kind: Removed})
			}
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(order(a.Kind)-order(b.Kind), strings.Count(a.Path, "/")-strings.Count(b.Path, "/"), strings.Compare(a.Path, b.Path))
	})
	shown := min(len(all), limit)
	return all[:shown:shown], len(all) - shown, inv.whole
}

// kind is what a file is to one who saw the workspace before.
func (inv Inventory) kind(name string, now File) Kind {
	was, known := inv.files[name]
	switch {
	case !known && inv.whole:
		return New
	case known && (was.Size != now.Size || !was.Time.Equal(now.Time)):
		return Changed
	}
	return Same
}

// order is which kinds come first.
func order(k Kind) int {
	switch k {
	case Same:
		return 2
	case Removed:
		return 1
	}
	return 0
}
