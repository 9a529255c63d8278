// Package filediff finds out which files of a workspace are new, changed or
// removed since an earlier look. It compares sizes and times, and reads no file.
// Everything is bounded, because the workspace may hold anything.
package filediff

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/tempname"
)

// Bounds of a look at a workspace.
const (
	mostFiles  = 5000 // files and directories
	mostOpened = 300  // directories that are looked into
	longest    = 1000 // bytes of a path; longer ones are left out
)

// isClosed reports whether a directory is not looked into: one that holds nothing of the
// project's own, or that is ours.
func isClosed(name string) bool { return pathname.IsCache(name) || name == ".pygent" }

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
	dirs  map[string]bool // the directories: whether all that is in one was seen
	whole bool            // there were no others
}

// Looked reports whether anything was looked at.
func (inv Inventory) Looked() bool { return len(inv.dirs) > 0 }

// Take looks at a workspace until ctx ends, the top first. What it has not seen by
// then is left out, and what cannot be listed as well.
func Take(ctx context.Context, list ListFunc) Inventory {
	inv := Inventory{files: map[string]File{}, dirs: map[string]bool{}, whole: true}
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
		if err == nil {
			inv.dirs[open[n]] = !more
		}
		files = files[:min(len(files), left)]
		left -= len(files)
		for _, f := range files {
			name := path.Base(f.Path)
			f.Path = path.Join(open[n], name)
			switch {
			case tempname.Is(name):
			case len(f.Path) > longest || name == "." || name == ".." || name == "/":
				inv.whole = false
			case !f.Dir:
				inv.files[f.Path] = f
			case !isClosed(name):
				inv.dirs[f.Path], open = false, append(open, f.Path)
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
// tells at most limit files: those that differ first, and of these what is at the
// top first.
func (inv Inventory) Since(before Inventory, limit int) Told {
	all := append(inv.differing(before), inv.same(before)...)
	return told(all, limit, !inv.whole)
}

// Differing is Since without the files that are the same.
func (inv Inventory) Differing(before Inventory, limit int) Told {
	return told(inv.differing(before), limit, !inv.whole || !before.whole)
}

func told(all []Change, limit int, partial bool) Told {
	shown := min(len(all), limit)
	return Told{Changes: all[:shown:shown], More: len(all) - shown, Partial: partial}
}

// differing returns what is new, changed or removed, in order.
func (inv Inventory) differing(before Inventory) (all []Change) {
	for name, f := range inv.files {
		if kind := before.kind(name, f); kind != Same {
			all = append(all, Change{File: f, Kind: kind})
		}
	}
	for name, f := range before.files {
		if _, there := inv.files[name]; !there && inv.lacks(name) {
			all = append(all, Change{File: f, Kind: Removed})
		}
	}
	slices.SortFunc(all, inOrder)
	return all
}

// same returns the files that do not differ, in order.
func (inv Inventory) same(before Inventory) (all []Change) {
	for name, f := range inv.files {
		if before.kind(name, f) == Same {
			all = append(all, Change{File: f})
		}
	}
	slices.SortFunc(all, inOrder)
	return all
}

// inOrder compares two changes: what there is comes before what is removed, and what is at
// the top before what is below.
func inOrder(a, b Change) int {
	gone := func(c Change) int {
		if c.Kind == Removed {
			return 1
		}
		return 0
	}
	return cmp.Or(gone(a)-gone(b), strings.Count(a.Path, "/")-strings.Count(b.Path, "/"), strings.Compare(a.Path, b.Path))
}

// kind is what a file is to one who saw the workspace before.
func (inv Inventory) kind(name string, now File) Kind {
	was, known := inv.files[name]
	switch {
	case !known && inv.lacks(name):
		return New
	case known && (was.Size != now.Size || !was.Time.Equal(now.Time)):
		return Changed
	}
	return Same
}

// lacks reports whether a file that was not seen was not there: all of its directory was
// seen, or of the one in which that directory would be.
func (inv Inventory) lacks(name string) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if seen, known := inv.dirs[dir]; seen || known || dir == "." {
			return seen
		}
	}
}
