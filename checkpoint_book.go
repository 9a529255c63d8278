package pygent

import (
	"context"

	"github.com/x/pygent/internal/checkpoint"
)

// checkpointBook is a [checkpoint.Book]. Agents call it through an interface of which
// only [WithCheckpoints] makes a value, so that programs without checkpoints do not
// link the store that these are kept in.
type checkpointBook interface {
	Begin(ctx context.Context, start checkpoint.Entry) error
	Begun() (start checkpoint.Entry, missing bool)
	Take(ctx context.Context, w checkpoint.Workspace, e checkpoint.Entry) (checkpoint.Entry, error)
	Unchanged(ctx context.Context, start, end checkpoint.Entry) error
	Look(ctx context.Context, w checkpoint.Workspace, work checkpoint.Work) error
	AtWork() bool
	Beside(dir string) (text string, err error)

	Entries() []checkpoint.Entry
	Find(n int64) (checkpoint.Entry, error)
	Last() (e checkpoint.Entry, found bool)
	HasFiles(ctx context.Context, e checkpoint.Entry) bool
	Undone(turns int) (checkpoint.Entry, error)
	Redone() (checkpoint.Entry, error)

	Restore(ctx context.Context, w checkpoint.Workspace, to int64, c checkpoint.Conversation) (checkpoint.Outcome, error)
	Pending() bool
	Recover(ctx context.Context, w checkpoint.Workspace, c checkpoint.Conversation) (*checkpoint.Outcome, error)

	Compare(ctx context.Context, w checkpoint.Workspace, from, to, most int64, yield func(checkpoint.Difference) error) error
	Export(ctx context.Context, n int64, w checkpoint.Workspace) error
	Settle(ctx context.Context, w checkpoint.Workspace, e checkpoint.Entry) error
	Move(ctx context.Context, w checkpoint.Workspace) error
	WentAway(ctx context.Context, w checkpoint.Workspace) error
	Away() (checkpoint.Entry, bool)
	BringHome(ctx context.Context, w checkpoint.Workspace, c checkpoint.Conversation) (checkpoint.Homecoming, error)
	CameHome(ctx context.Context, dir string) error
	Close() error
}

// checkpointOptions says where checkpoints are kept.
type checkpointOptions struct {
	dir  string // of the store; empty keeps none
	open func(ctx context.Context, dir, log, former string, temporary bool) (checkpointBook, error)
}

// openBook is [checkpoint.Open].
func openBook(ctx context.Context, dir, log, former string, temporary bool) (checkpointBook, error) {
	b, err := checkpoint.Open(ctx, dir, log, former, temporary)
	if err != nil {
		return nil, err // not a nil *Book
	}
	return b, nil
}
