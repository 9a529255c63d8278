package checkpoint

import (
	"context"
	"maps"
	"slices"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/treedir"
)

// Homecoming says what [Book.BringHome] did.
type Homecoming struct {
	Away Entry    // the checkpoint whose files are back; its On says where they were
	Kept []Kept   // files that somebody has changed in the directory meanwhile
	Back *Outcome // of the conversation, if it went back to that checkpoint
}

// Away returns the last checkpoint if its files were not in their directory, and
// nobody has brought them back there since. In a book that was just opened, the
// process that had them there was killed, or could not bring them back.
func (b *Book) Away() (Entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away()
}

func (b *Book) away() (Entry, bool) {
	at := b.before(len(b.seen))
	if at < 0 || b.seen[at].Tree.IsZero() {
		return Entry{}, false
	}
	e := b.seen[at]
	e.On = b.where(at)
	return e, e.On != ""
}

// where returns where the files were last that are those of the checkpoint at an
// index, the last one; "" for their directory.
func (b *Book) where(at int) string {
	for last := len(b.seen) - 1; last > at; last-- {
		if b.seen[last].Kind == away {
			return b.seen[last].On
		}
	}
	return b.seen[at].On
}

// WentAway notes that the files of a workspace are not in their directory any more,
// unless that is known.
func (b *Book) WentAway(ctx context.Context, w Workspace) error {
	if w == nil {
		return nil
	}
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	files, err := w()
	if err != nil {
		return err
	}
	defer files.Close()
	at, on := b.before(len(b.seen)), onOf(files)
	if at < 0 || on == b.where(at) || b.pending() { // the lines of a restore say it themselves
		return nil
	}
	_, err = b.add(ctx, Entry{Note: Note{Kind: away, On: on}})
	return err
}

// BringHome makes the directory of a workspace what the checkpoint of Away has: what
// its files were like at that moment somewhere else. A file that was changed in the
// directory since it was copied from there stays if it was changed elsewhere, too.
// If the conversation tells more than the checkpoint, it goes back to it, since its
// files are not there. After kill -9, the next BringHome makes the rest.
func (b *Book) BringHome(ctx context.Context, w Workspace, c Conversation) (home Homecoming, err error) {
	unlock, err := b.lock()
	if err != nil {
		return home, err
	}
	defer unlock()
	var is bool
	if home.Away, is = b.away(); !is {
		return home, nil
	}
	conflicts, err := b.fetch(ctx, w, home.Away)
	if err != nil {
		return home, err
	}
	for _, found := range conflicts {
		home.Kept = append(home.Kept, Kept{Name: found.Name, Why: found.Why, At: found.Kept})
	}
	if _, messages := c.Place(); messages > home.Away.Messages && !b.pending() {
		back := Entry{Note: Note{Kind: restoring, To: home.Away.N, From: home.Away.N, Undo: true}}
		if back, err = b.add(ctx, back); err != nil {
			return home, err
		}
		out, err := b.carryOut(context.WithoutCancel(ctx), w, back, c, false)
		if err != nil {
			return home, err
		}
		home.Back = &out
	}
	return home, b.home(ctx)
}

// fetch puts the files of a checkpoint into their directory, as far as they differ
// from those that were copied from there.
func (b *Book) fetch(ctx context.Context, w Workspace, gone Entry) ([]treedir.Conflict, error) {
	files, err := w()
	if err != nil {
		return nil, err
	}
	defer files.Close()
	all := map[string]treedir.Conflict{}
	found, _, err := b.store.Recover(ctx, files)
	noteConflicts(all, found)
	if err != nil {
		return nil, err
	}
	found, err = b.store.Apply(ctx, files, b.copied(gone).Tree, gone.Tree, objstore.ApplyOptions{Times: true})
	noteConflicts(all, found)
	var sorted []treedir.Conflict
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[name])
	}
	return sorted, err
}

// copied returns the checkpoint that is nearest to what was copied out of the
// directory of another one: the last whose files were there, or the first of the
// place where they went.
func (b *Book) copied(gone Entry) Entry {
	first := b.at(gone.N)
	if b.seen[first].On == "" {
		return b.seen[first]
	}
	for at := first; at >= 0 && b.seen[at].On == gone.On; at = b.before(at) {
		first = at
	}
	at := b.before(first)
	if at >= 0 && b.seen[at].On == "" && b.seen[at].Dir == gone.Dir && !b.seen[at].Tree.IsZero() {
		first = at
	}
	return b.seen[first]
}

// CameHome notes that the files of a directory are there again.
func (b *Book) CameHome(ctx context.Context, dir string) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if e, is := b.away(); !is || e.Dir != dir {
		return nil
	}
	return b.home(ctx)
}

// home writes the log anew, without the place where files were for a while. A restore
// that was interrupted there needs it still.
func (b *Book) home(ctx context.Context) error {
	seen := slices.DeleteFunc(slices.Clone(b.seen), func(e Entry) bool { return e.Kind == away })
	return b.rewrite(ctx, seen, func(e *Entry) {
		if e.hasFiles() {
			e.On = ""
		}
	})
}
