package checkpoint

import (
	"context"
	"errors"
	"slices"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// Last returns the last checkpoint; false if there is none.
func (b *Book) Last() (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.before(len(b.seen))
	if at < 0 {
		return Entry{}, false
	}
	return b.seen[at], true
}

// Settle adds a checkpoint unless the last one has the same files and messages.
func (b *Book) Settle(ctx context.Context, w Workspace, e Entry) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if b.pending() {
		return ErrUnfinished
	}
	if err := b.read(ctx, w, &e, nil); err != nil {
		return err
	}
	if at := b.before(len(b.seen)); at >= 0 && b.seen[at].Tree == e.Tree && b.seen[at].Messages == e.Messages {
		b.store.Forget(e.Tree)
		return nil
	}
	if _, err = b.add(ctx, e); err != nil {
		b.store.Forget(e.Tree)
	}
	return err
}

// Move puts the files of the last checkpoint into an empty workspace that takes the
// place of the one they were in, which is gone: all checkpoints of that one are of
// the new one afterwards. A restore that was interrupted begins anew there. After an
// error, or kill -9, the checkpoints are as they were.
func (b *Book) Move(ctx context.Context, w Workspace) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	at := b.before(len(b.seen))
	if at < 0 || b.seen[at].Tree.IsZero() {
		return errors.New("the last checkpoint has no files")
	}
	last := b.seen[at]
	files, err := w()
	if err != nil {
		return err
	}
	defer files.Close()
	if err := b.put(ctx, files, last.Tree); err != nil {
		return err
	}
	return b.moved(ctx, last.Dir, files.Dir())
}

// moved writes the log anew with another directory.
func (b *Book) moved(ctx context.Context, from, to string) error {
	seen := slices.DeleteFunc(slices.Clone(b.seen), func(e Entry) bool { return e.Kind == restoring && e.Restore != 0 })
	return b.rewrite(ctx, seen, func(e *Entry) {
		if e.Dir == from {
			e.Dir, e.On = to, ""
		}
	})
}

// rewrite replaces the log by entries that are changed.
func (b *Book) rewrite(ctx context.Context, entries []Entry, change func(*Entry)) error {
	seen := slices.Clone(entries)
	var refs []objstore.Ref
	for i := range seen {
		change(&seen[i])
		ref, err := seen[i].ref()
		if err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	if err := b.log.Replace(ctx, refs); err != nil {
		return err
	}
	b.seen = seen
	return nil
}

// Stored returns by how many bytes a checkpoint has made the store grow, as its line
// of a log says.
func Stored(ref objstore.Ref) int64 {
	e, err := entryOf(ref)
	if err != nil {
		return 0
	}
	return e.Stored
}
