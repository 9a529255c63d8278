package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/treedir"
)

// Undo restores the checkpoint before the last turns.
func (k *keeper) Undo(ctx context.Context, turns int) (pygent.Restored, error) {
	return k.restore(ctx, "undo", func() (checkpoint.Entry, error) { return k.book.Undone(turns) })
}

// Redo takes the last undo back.
func (k *keeper) Redo(ctx context.Context) (pygent.Restored, error) {
	return k.restore(ctx, "redo", func() (checkpoint.Entry, error) { return k.book.Redone() })
}

// Restore leads to any checkpoint.
func (k *keeper) Restore(ctx context.Context, id int64) (pygent.Restored, error) {
	return k.restore(ctx, fmt.Sprintf("restore checkpoint %d", id), func() (checkpoint.Entry, error) { return k.book.Find(id) })
}

func (k *keeper) restore(ctx context.Context, what string, find func() (checkpoint.Entry, error)) (done pygent.Restored, err error) {
	if err = k.missing(); err == nil {
		done, err = k.agent.Restoring(ctx, func(ctx context.Context) (pygent.Restored, error) {
			if err := k.Await(ctx); err != nil {
				return pygent.Restored{}, err
			}
			to, err := find()
			if err != nil {
				return pygent.Restored{}, err
			}
			return k.restoreTo(ctx, to)
		})
	}
	switch {
	case err == nil:
	case errors.Is(err, pygent.ErrAgentBusy):
		err = fmt.Errorf("%s: the agent is working; interrupt it or wait until it ends: %w", what, err)
	default:
		err = fmt.Errorf("%s: %w", what, err)
	}
	return done, err
}

// restoreTo leads back to a checkpoint.
func (k *keeper) restoreTo(ctx context.Context, to checkpoint.Entry) (pygent.Restored, error) {
	if err := k.agent.Complete(ctx); err != nil {
		return pygent.Restored{}, err
	}
	mark, err := markOf(to)
	if err == nil && !k.agent.CanRewind(mark) {
		err = fmt.Errorf("checkpoint %d: its messages are not in the history: %w", to.N, chat.ErrHistoryChanged)
	}
	if err != nil {
		return pygent.Restored{}, err
	}
	before := k.agent.Entries()
	out, err := k.book.Restore(ctx, k.restorableFiles(), to.N, conversation{k.agent})
	if err != nil {
		return pygent.Restored{}, err
	}
	return k.restored(ctx, out, before), nil
}

// restorableFiles are the files that a restore may change, or nil.
func (k *keeper) restorableFiles() checkpoint.Workspace {
	if k.noFiles != "" {
		return nil
	}
	return k.files()
}

// restored describes what a restore did. before are the entries that were in effect.
func (k *keeper) restored(ctx context.Context, out checkpoint.Outcome, before []chat.HistoryEntry) pygent.Restored {
	done := pygent.Restored{
		To: described(out.To), From: described(out.From), Undo: out.Undo, NoFiles: out.NoFiles, Repositories: out.Repositories,
	}
	done.HeadMoved = out.Now.Head != "" && done.To.Commit != "" && out.Now.Head != done.To.Commit
	for _, kept := range out.Kept {
		done.Kept = append(done.Kept, keptFile(kept))
	}
	k.agent.Rewound(ctx, &done, before)
	if out.NoFiles != "" || out.Now.Tree.IsZero() {
		return done
	}
	var err error
	done.Changed, done.MoreChanged, err = k.Differences(ctx, out.From.N, out.Now.N)
	if err != nil {
		k.log().Warn("the changes of a restore are unknown", "error", err)
	}
	k.agent.NoteChanges(done.Changed)
	for _, c := range done.Changed {
		if !c.Created && slices.Contains(out.Unsure, c.Path) {
			done.Unsure = append(done.Unsure, c.Path)
		}
	}
	return done
}

// finishRestore makes the rest of a restore that was interrupted, by the death of the
// process say.
func (k *keeper) finishRestore(ctx context.Context) {
	before := k.agent.Entries()
	out, err := k.book.Recover(ctx, k.restorableFiles(), conversation{k.agent})
	if err != nil {
		k.warn("a restore was interrupted and could not be completed: " + err.Error())
	}
	if err != nil || out == nil {
		return
	}
	done := k.restored(ctx, *out, before)
	k.tell(pygent.Event{Type: pygent.EventRestored, Restored: &done, Text: "an interrupted restore was completed: " + done.String()})
}

// Bounds of the differences that are told.
const (
	mostChanges     = 1000
	mostChangeBytes = 4 << 20
	mostCompared    = 1 << 20 // bytes of a file
)

var errEnough = errors.New("enough differences")

// Differences returns how the files differ between two checkpoints.
func (k *keeper) Differences(ctx context.Context, from, to int64) (changes []pygent.FileChange, more bool, err error) {
	if err := k.missing(); err != nil {
		return nil, false, err
	}
	size := 0
	err = k.book.Compare(ctx, k.files(), from, to, mostCompared, func(d checkpoint.Difference) error {
		if len(changes) == mostChanges || size > mostChangeBytes {
			return errEnough
		}
		c := k.differenceOf(d)
		size += len(c.Before) + len(c.After)
		changes = append(changes, c)
		return nil
	})
	if errors.Is(err, errEnough) {
		more, err = true, nil
	}
	slices.SortFunc(changes, func(a, b pygent.FileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes, more, err
}

func (k *keeper) differenceOf(d checkpoint.Difference) pygent.FileChange {
	var c pygent.FileChange
	switch {
	case d.TooLarge:
		c.Note = fmt.Sprintf("from %d to %d bytes, too many to compare", d.OldSize, d.NewSize)
	case d.Mode:
		c.Note = "its permissions changed"
	case d.OldKind == treedir.Link || d.NewKind == treedir.Link:
		c.Note = linkNote(d)
	default:
		c = k.agent.Change(d.Name, d.Old, d.OldKind == treedir.None, string(d.New))
	}
	c.Path, c.Created, c.Deleted = d.Name, d.OldKind == treedir.None, d.NewKind == treedir.None
	return c
}

func linkNote(d checkpoint.Difference) string {
	switch {
	case d.OldKind != treedir.Link:
		return "it is a link to " + string(d.New)
	case d.NewKind != treedir.Link:
		return "it was a link to " + string(d.Old)
	}
	return fmt.Sprintf("it was a link to %s and is one to %s", d.Old, d.New)
}
