package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/treedir"
)

// Difference is a file that differs between two checkpoints.
type Difference struct {
	Name     string
	Old, New []byte // of text and other files; the target of a link
	OldKind  treedir.Kind
	NewKind  treedir.Kind
	OldSize  int64
	NewSize  int64
	Mode     bool // the permissions differ, and nothing else
	TooLarge bool // one has more than was asked for; neither is read
}

// Compare calls yield with the files that differ between two checkpoints. The number
// 0 stands for the workspace as it is now. Directories are not told, nor is what is
// in .git. Files of more than most bytes are not read.
func (b *Book) Compare(ctx context.Context, w Workspace, from, to, most int64, yield func(Difference) error) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	var trees [2]objstore.Tree
	for i, n := range []int64{from, to} {
		e := Entry{}
		if at := b.at(n); n != 0 && (at < 0 || !b.seen[at].isCheckpoint()) {
			return fmt.Errorf("checkpoint %d: %w", n, ErrUnknown)
		} else if n != 0 {
			e = b.seen[at]
		} else if w != nil {
			if err := b.read(ctx, w, &e, nil); err != nil {
				return err
			}
			defer b.store.Forget(e.Tree)
		}
		if trees[i] = e.Tree; e.Tree.IsZero() {
			return fmt.Errorf("checkpoint %d has no files", n)
		}
	}
	return b.differences(ctx, trees, most, yield)
}

func (b *Book) differences(ctx context.Context, trees [2]objstore.Tree, most int64, yield func(Difference) error) error {
	for c, err := range b.store.Diff(ctx, trees[0], trees[1]) {
		if err != nil {
			return err
		}
		if objstore.OfGit(c.Name) || isDir(c.Old) && isDir(c.New) {
			continue
		}
		d := Difference{Name: c.Name, OldKind: c.Old.Kind, NewKind: c.New.Kind, OldSize: c.Old.Size, NewSize: c.New.Size}
		d.TooLarge = c.Old.Size > most || c.New.Size > most
		if !d.TooLarge {
			if d.Old, err = b.content(ctx, c.Old); err != nil {
				return err
			}
			if d.New, err = b.content(ctx, c.New); err != nil {
				return err
			}
		}
		d.Mode = c.Old.Kind == c.New.Kind && c.Old.Mode != c.New.Mode && string(d.Old) == string(d.New) && c.Old.Size == c.New.Size
		if err := yield(d); err != nil {
			return err
		}
	}
	return nil
}

// isDir reports whether there is nothing but perhaps a directory.
func isDir(i treedir.Item) bool { return i.Kind == treedir.Dir || i.Kind == treedir.None }

func (b *Book) content(ctx context.Context, item treedir.Item) ([]byte, error) {
	switch item.Kind {
	case treedir.Link:
		return []byte(item.Target), nil
	case treedir.File:
		r, err := b.store.Reader(ctx, item)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	return nil, nil
}

// Export writes the files of a checkpoint into an empty workspace.
func (b *Book) Export(ctx context.Context, n int64, w Workspace) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	at := b.at(n)
	if at < 0 || !b.seen[at].isCheckpoint() {
		return fmt.Errorf("checkpoint %d: %w", n, ErrUnknown)
	}
	if b.seen[at].Tree.IsZero() {
		return nil
	}
	files, err := w()
	if err != nil {
		return err
	}
	defer files.Close()
	return b.put(ctx, files, b.seen[at].Tree)
}

// HasFiles reports whether the tree of a checkpoint has more than directories. One that
// cannot be read has.
func (b *Book) HasFiles(ctx context.Context, e Entry) bool {
	unlock, err := b.lock()
	if err != nil {
		return true
	}
	defer unlock()
	for c, err := range b.store.Diff(ctx, objstore.Tree{}, e.Tree) {
		if err != nil || !isDir(c.New) {
			return true
		}
	}
	return false
}

// put writes a tree into an empty workspace.
func (b *Book) put(ctx context.Context, files Files, t objstore.Tree) error {
	conflicts, err := b.store.Apply(ctx, files, objstore.Tree{}, t, objstore.ApplyOptions{Times: true})
	for _, c := range conflicts {
		err = errors.Join(err, &fs.PathError{Op: "restore", Path: c.Name, Err: errors.New(c.Why)})
	}
	return err
}
