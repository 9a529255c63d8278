package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/x/pygent/internal/safecall"
)

// HistoryStore keeps the entries of one conversation, in a database for
// example. [LoadHistory] makes a history of it. A store only has to keep
// what it is given, in order; all else is done by the [History]:
//
//   - It calls one method at a time, and Load first.
//   - A message of the model is stored before its tools run, and each result
//     before the model is asked again. When Append returns an error, the run ends
//     with that error, and no further tool runs.
//   - After an error it calls Load again, since nobody knows what was stored. It
//     goes on after the entries that are there, and returns [ErrHistoryChanged]
//     if they are not its own. So an Append that stores its entries only in part
//     does no harm, nor does one that stores them and returns an error.
//   - The context of a call has the values of the run's context, but does not end
//     with it, so that a cancelled run is stored as well. It ends after ten
//     seconds. A call that ignores this fails, and the next one waits for it.
//   - Another process may load the conversation while this one adds to it. A store
//     that cannot allow that returns [ErrHistoryInUse] when it is opened.
//
// How durable an entry is when Append returns is for the store to say. A
// database that commits loses nothing when the machine fails; the file of
// [OpenHistory] loses nothing when the process is killed.
//
// The history keeps all entries in memory as well, since a store cannot be asked for
// single ones.
//
// pygenttest.TestHistoryStore tests a store.
type HistoryStore interface {
	// Load returns all entries in their order. It returns none for a new
	// conversation.
	Load(ctx context.Context) ([]HistoryEntry, error)
	// Append adds entries after all others. Their Seq numbers follow on from
	// those that were stored, so they can be the key of a table.
	Append(ctx context.Context, entries ...HistoryEntry) error
	// SetSystem makes system, whose Seq is 0, the first entry, in place of an
	// entry with that number. If its message has no role, there is no such entry
	// afterwards. No other entry changes.
	SetSystem(ctx context.Context, system HistoryEntry) error
}

// LoadHistory returns the history that store keeps. The history does not close
// the store; close that after the agent and the history. Nothing but ctx bounds
// how long it waits for the store.
func LoadHistory(ctx context.Context, store HistoryStore) (*History, error) {
	if store == nil {
		return nil, errors.New("load history: no store")
	}
	h := &History{}
	if err := h.load(ctx, &storeLink{store: store}); err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	return h, nil
}

// load begins the history with what a store has.
func (h *History) load(ctx context.Context, link *storeLink) error {
	entries, err := safecall.Outlive(ctx, func() ([]HistoryEntry, error) { return link.store.Load(ctx) })
	if err != nil {
		return err
	}
	entries = slices.Clone(entries)
	for i := range entries {
		if e := &entries[i]; !e.IsMark() || !e.Message.same(&Message{}) {
			if e.Message, err = encodeForHistory(e.Message); err != nil {
				return fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
	}
	h.record(entries...)
	h.store, link.given = link, len(entries)
	h.evict()
	return nil
}

// write gives the store the entries that it does not have yet. The caller holds
// writing.
func (h *History) write(ctx context.Context) error {
	if h.store == nil {
		return nil
	}
	return h.store.write(ctx, h.allEntries())
}

// catchUp writes what could not be written before, so that nothing is done whose
// reason is not stored.
func (h *History) catchUp(ctx context.Context) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.store == nil || h.open(true) != nil {
		return nil
	}
	if err := h.write(ctx); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	return nil
}

// storeWithin is how long a store of the caller's may take for one call.
const storeWithin = 10 * time.Second

// storeLink is what a history knows about its store. The history's writing
// guards it.
type storeLink struct {
	store  HistoryStore
	file   *historyFile    // the store, if it is a file, which needs no time limit
	given  int             // how many of the history's entries the store has
	unsure bool            // a call failed, so given may be wrong
	late   <-chan struct{} // closed when the last call, which took too long, returns
}

// write appends those of a history's entries that the store does not have.
func (l *storeLink) write(ctx context.Context, all []HistoryEntry) error {
	if l.unsure {
		if err := l.find(ctx, all); err != nil {
			return err
		}
	}
	if l.given == len(all) {
		return nil
	}
	added := all[l.given:]
	if l.file == nil {
		added = slices.Clone(added)
	}
	if err := l.change(ctx, func(ctx context.Context) error { return l.store.Append(ctx, added...) }); err != nil {
		return err
	}
	l.given = len(all)
	return nil
}

// setSystem replaces the system message, after it has written what the store
// does not have yet. all are the history's entries as they are before.
func (l *storeLink) setSystem(ctx context.Context, all []HistoryEntry, system HistoryEntry) error {
	if err := l.write(ctx, all); err != nil {
		return err
	}
	if err := l.change(ctx, func(ctx context.Context) error { return l.store.SetSystem(ctx, system) }); err != nil {
		return err
	}
	l.given += present(system.Message) - present(systemOf(all))
	return nil
}

// find finds out which of a history's entries the store has, after a call that
// failed.
func (l *storeLink) find(ctx context.Context, all []HistoryEntry) error {
	stored, err := callStore(ctx, l, l.store.Load)
	if err != nil {
		return err
	}
	system := HistoryEntry{Message: systemOf(all)}
	if !alike(HistoryEntry{Message: systemOf(stored)}, system) {
		if err := l.change(ctx, func(ctx context.Context) error { return l.store.SetSystem(ctx, system) }); err != nil {
			return err
		}
		stored = withSystem(stored, system)
	}
	if len(stored) > len(all) || !slices.EqualFunc(stored, all[:len(stored)], alike) {
		return errStoreChanged{}
	}
	l.given, l.unsure = len(stored), false
	return nil
}

// sync writes all entries, and puts a file on stable storage.
func (l *storeLink) sync(ctx context.Context, all []HistoryEntry) error {
	if err := l.write(ctx, all); err != nil || l.file == nil {
		return err
	}
	return l.file.sync()
}

// close writes all entries, and closes a file.
func (l *storeLink) close(ctx context.Context, all []HistoryEntry) error {
	err := l.write(ctx, all)
	if l.file == nil {
		return err
	}
	if closed := l.file.close(); err == nil {
		err = closed // else it has the same cause
	}
	return err
}

// change calls a method that changes the store.
func (l *storeLink) change(ctx context.Context, f func(ctx context.Context) error) error {
	if l.file != nil {
		err := f(ctx)
		l.unsure = l.unsure || err != nil
		return err
	}
	_, err := callStore(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// callStore calls a method of the store. For a store of the caller's own it
// limits the time, and a panic is an error.
func callStore[T any](ctx context.Context, l *storeLink, f func(ctx context.Context) (T, error)) (value T, err error) {
	if l.file != nil {
		return f(ctx)
	}
	defer func() { l.unsure = l.unsure || err != nil }()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), storeWithin, errStoreSlow)
	defer cancel()
	if l.late != nil {
		select {
		case <-l.late:
		case <-ctx.Done():
			return value, errStoreSlow
		}
	}
	returned := make(chan struct{})
	l.late = returned
	return safecall.Outlive(ctx, func() (T, error) {
		defer close(returned)
		return f(ctx)
	})
}

// errStoreChanged is [ErrHistoryChanged] in the words for a store.
type errStoreChanged struct{}

// Error implements the error interface.
func (errStoreChanged) Error() string {
	return "the store has entries that this history did not write: another program may be using the same conversation"
}

// Is makes errors.Is find [ErrHistoryChanged].
func (errStoreChanged) Is(target error) bool { return target == ErrHistoryChanged }

var errStoreSlow = fmt.Errorf("the store did not answer within %s", storeWithin)
