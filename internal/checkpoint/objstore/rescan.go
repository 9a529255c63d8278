package objstore

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/treedir"
)

// Lister is a [Source] that can scan a part of its tree.
type Lister interface {
	Source
	// ScanBelow is Scan for what is in a directory of the tree, which is not reached
	// through links; "" for all.
	ScanBelow(ctx context.Context, dir string, yield func(Entry) error) error
}

// rescan takes a tree in which only some names were changed since the last time. It lists
// the directories on the way to those names, and takes all else as the cache has it: also
// files whose times are not trusted yet, which the next look reads again.
type rescan struct {
	*taker
	src  Lister
	dirs map[string]bool // to be listed
}

// rescanOf returns how the names that were changed are found, or nil if the whole tree
// has to be scanned: nothing is known of it, or other names may be left out now.
func rescanOf(t *taker, changed []string) *rescan {
	lister, ok := t.src.(Lister)
	if !ok || changed == nil || !t.stored {
		return nil
	}
	r := &rescan{taker: t, src: lister, dirs: map[string]bool{"": true}}
	for _, name := range changed {
		if base := path.Base(name); base == ignoreFile || slices.Contains(pathname.BuildFiles, base) {
			return nil
		}
		for name != "" {
			name = treedir.DirOf(name)
			r.dirs[name] = true
		}
	}
	return r
}

// scan takes the place of [Source.Scan].
func (r *rescan) scan(ctx context.Context, yield func(Entry) error) error {
	return r.dir(ctx, "", r.old, yield)
}

// dir tells what is in a directory. known is what the cache has below it.
func (r *rescan) dir(ctx context.Context, dir string, known []taken, yield func(Entry) error) error {
	entries, err := r.list(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		was, below := subtree(known, e.Name)
		if e.Mode.IsDir() && was.Mode.IsDir() {
			e.Err = was.Err // why it was left out
		}
		switch err = yield(e); {
		case err != nil || !e.Mode.IsDir():
		case was.item.Kind == Dir && !r.dirs[e.Name]:
			err = r.same(was, below)
		case was.item.Kind == Dir:
			err = r.dir(ctx, e.Name, below, yield)
		default:
			err = r.src.ScanBelow(ctx, e.Name, yield)
		}
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

// list returns what is in a directory, without what is below.
func (r *rescan) list(ctx context.Context, dir string) (entries []Entry, err error) {
	err = r.src.ScanBelow(ctx, dir, func(e Entry) error {
		entries = append(entries, e)
		if e.Mode.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return entries, err
}

// same takes what is below the directory that was told last as the cache has it.
func (r *rescan) same(was *taken, below []taken) error {
	r.items[len(r.items)-1].item.Content = was.item.Content
	r.items = append(r.items, below...)
	r.left.Entries -= int64(len(below))
	for i := range below {
		f := &below[i]
		if f.item.Kind == LeftOut {
			r.leave(f.Name, treedir.Reason(f.Err))
		}
		if err := r.charge(f.Name, f.item.Size); err != nil {
			return err
		}
	}
	return nil
}

// subtree returns what a cache has of a name and of what is below it.
func subtree(items []taken, name string) (*taken, []taken) {
	at, found := findIn(items, name)
	if !found {
		return new(taken), nil
	}
	rest := items[at+1:]
	end := sort.Search(len(rest), func(i int) bool { return !strings.HasPrefix(rest[i].Name, name+"/") })
	return &items[at], rest[:end]
}
