package objstore

import (
	"context"
	"fmt"
	"iter"
	"path"

	"github.com/x/pygent/internal/tree"
)

// Diff returns what must be done to a tree a to make it the tree b. A directory
// comes before its content if it is new and after it if it is removed. If a
// directory becomes something else, or something else a directory, the removal
// is one change and what is new another. What one of the trees has left out is
// no difference, and neither are times. After an error there are no more
// changes.
func (s *Store) Diff(ctx context.Context, a, b Tree) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		release, err := s.hold(ctx)
		if err == nil {
			defer release()
			err = s.diff(ctx, a, b, func(c Change) error {
				if !yield(c, nil) {
					return errStopped
				}
				return nil
			})
		}
		if err != nil && err != errStopped {
			yield(Change{}, fmt.Errorf("compare trees: %w", err))
		}
	}
}

// errStopped ends a comparison whose consumer needs no more of it.
var errStopped = fmt.Errorf("stopped")

// diff calls do with each change. The caller holds the store.
func (s *Store) diff(ctx context.Context, a, b Tree, do func(Change) error) error {
	d := differ{ctx: ctx, s: s, do: do}
	return d.dirs("", a.root, b.root, 0)
}

type differ struct {
	ctx context.Context
	s   *Store
	do  func(Change) error
}

// dirs compares two directories. The zero hash is an empty one.
func (d *differ) dirs(dir string, a, b hash, depth int) error {
	if a == b {
		return nil
	}
	if depth > tree.MaxDepth {
		return fmt.Errorf("%w: directories are nested deeper than %d", ErrDamaged, tree.MaxDepth)
	}
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	old, err := d.list(a)
	if err != nil {
		return err
	}
	now, err := d.list(b)
	if err != nil {
		return err
	}
	for len(old) > 0 || len(now) > 0 {
		var c Change
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].name < now[0].name:
			c = Change{Name: old[0].name, Old: old[0].Item}
			old = old[1:]
		case len(old) == 0 || now[0].name < old[0].name:
			c = Change{Name: now[0].name, New: now[0].Item}
			now = now[1:]
		default:
			c = Change{Name: now[0].name, Old: old[0].Item, New: now[0].Item}
			old, now = old[1:], now[1:]
		}
		c.Name = path.Join(dir, c.Name)
		if err := d.change(c, depth); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) list(name hash) ([]child, error) {
	if name == (hash{}) {
		return nil, nil
	}
	return d.s.children(name)
}

// change tells what has become of one name.
func (d *differ) change(c Change, depth int) error {
	switch {
	case c.Old.Kind == LeftOut || c.New.Kind == LeftOut:
		return nil
	case c.Old.Kind != None && c.New.Kind != None && (c.Old.Kind == Dir) != (c.New.Kind == Dir):
		if err := d.change(Change{Name: c.Name, Old: c.Old}, depth); err != nil {
			return err
		}
		return d.change(Change{Name: c.Name, New: c.New}, depth)
	case c.Old.Kind == Dir && c.New.Kind == None:
		if err := d.dirs(c.Name, c.Old.Content, hash{}, depth+1); err != nil {
			return err
		}
		return d.do(c)
	}
	if !c.Old.Same(c.New) {
		if err := d.do(c); err != nil {
			return err
		}
	}
	if c.New.Kind != Dir {
		return nil
	}
	return d.dirs(c.Name, c.Old.Content, c.New.Content, depth+1)
}
