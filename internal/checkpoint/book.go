// Package checkpoint keeps how a conversation and the files of its workspace were
// at certain moments, and leads back to them. The trees of files are in a
// [objstore.Store], and a log there has a line for each moment: the tree and the place
// in the conversation, so that both are of the same one.
//
// # The moments
//
// An agent's turn has a checkpoint at its [Start], before the message of the user,
// and one at its [End]. What differs from an End to the next Start was changed by
// the user. If there is no End because the process died, whoever opens the book
// adds one at once, see [Book.AtWork], so that what comes later is the user's.
//
// # Who changed what
//
// In a turn, a [Turn] looks at the files before and after each call that may change
// some, and the log has a line where they differ. What differs across a call was changed
// by the agent, and what differs in between by others: the user, an editor, another
// session. So most of a turn is theirs for certain, since a model writes for longer than
// its calls take. What a tool for files says it has changed is exact, too. In a large
// workspace, a look that takes seconds is the last of its turn: a watch then tells what
// others write until the end, and all else that differs counts as the agent's, as unsure.
//
// While a command runs, trees do not tell who has changed a file. Nothing that is open
// to every user does: inotify has no process, and what programs under a tracer cost is
// too much for each command. But commands of a container, and those of a sandbox with
// namespaces, write through a mount of their own, and Linux tells root (CAP_SYS_ADMIN)
// what is written through ours: see package writewatch. That is others' and stays, also
// where it is told later, since a program has the file open until then. Anything
// else counts as the agent's, since a restore that keeps all that commands have made would
// be of no use, and is marked as unsure: others may have moved a file there, made a link,
// or written from another container. A restore takes it back and names it, with the
// checkpoint that has it. The same goes for what tools of the program's own change, and
// for what differs after the process died in a turn. In a volume of an engine nobody else
// writes.
//
// A restore changes a file only from what the agent has left to what was before. If
// others have changed it since, or in the same call, it stays, and is named. Commands in
// the background that a turn has left change files of the agent until the turn ends; what
// they change later is the user's.
//
// # The start of a turn
//
// The files of a Start are read while the model is asked. A line before the message
// says where the turn begins, see [Book.Begin]. If the process dies before the Start
// is in the log, the agent has changed nothing yet, because its first call waits for
// the Start: so the next process makes it up, see [Book.Begun].
//
// # Going back
//
// A restore takes back the turns in between, one after the other, from the last. So
// a file that the user changed is not touched by the way back, unless the agent has
// changed it too: then it is a conflict, and stays. What was before a restore is a
// checkpoint as well, so that the restore can be taken back: see [Book.Undone] and
// [Book.Redone].
//
// What a restore has written is known, so that only the directories on the way there are
// looked at after it. What others change elsewhere at that time is found by the next look,
// as a change of the user's.
//
// The line of a restore comes before its first step, and one after its last; in
// between, the files change, and then the conversation. [Book.Recover] makes the
// rest of a restore that was interrupted, so there is always the old state or the
// new one of both.
package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/treedir"
)

// Errors for use with errors.Is.
var (
	ErrUnknown       = errors.New("no such checkpoint")
	ErrNothingToUndo = errors.New("there is no turn to undo")
	ErrNothingToRedo = errors.New("nothing was undone since the last turn")
	ErrUnfinished    = errors.New("a restore was interrupted and is not finished")
)

// Kind says what a checkpoint is.
type Kind string

// The kinds. Those that are not exported are no checkpoints, but lines about a
// restore.
const (
	Start    Kind = "start"    // before a message of the user
	Resumed  Kind = "resumed"  // before a turn goes on that had ended
	End      Kind = "end"      // at the end of its turn
	Before   Kind = "before"   // before a restore
	Restored Kind = "restored" // after one

	call      Kind = "call"      // of the files, before or after a call of a turn
	beginning Kind = "beginning" // a message comes, and then a Start
	restoring Kind = "restoring" // a restore has made so many of its steps
	dropped   Kind = "dropped"   // a restore was given up before its first step
	away      Kind = "away"      // the files of the checkpoint before it are in a volume since
)

// Place is a place in a conversation, whose meaning is the caller's.
type Place = json.RawMessage

// Entry is a line of the log.
type Entry struct {
	N        int64 // from 1
	Tree     objstore.Tree
	Messages int // of the conversation
	Note
}

// Note is what an entry says besides.
type Note struct {
	Kind  Kind      `json:"kind"`
	Time  time.Time `json:"time"`
	Place Place     `json:"place,omitempty"`
	Words string    `json:"words,omitempty"` // of the user, with which the turn begins
	Dir   string    `json:"dir,omitempty"`   // whose files the tree has; empty if it has none
	Head  string    `json:"head,omitempty"`  // the commit that git has checked out there, as far as it is known

	Left   []objstore.Left `json:"left,omitempty"`   // the first of what was left out
	More   int             `json:"more,omitempty"`   // how many more
	Stored int64           `json:"stored,omitempty"` // bytes by which the store has grown

	// Of a restore: the number of its first line, 0 in that line; where it leads,
	// where it comes from, whether it takes turns back, and how many steps were made.
	Restore int64 `json:"restore,omitempty"`
	To      int64 `json:"to,omitempty"`
	From    int64 `json:"from,omitempty"`
	Undo    bool  `json:"undo,omitempty"`
	Done    int   `json:"done,omitempty"`
	// Who changed what differs from the line before, see [Work]: others alone; the agent
	// alone, but for some paths, or in some paths alone; or nobody knows.
	Others bool     `json:"others,omitempty"`
	Only   []string `json:"only,omitempty"`
	Not    []string `json:"not,omitempty"`
	Unsure bool     `json:"unsure,omitempty"`
	// Work, of an End, is what was done since the entry before; nil if that is not known,
	// as after the death of the process: then nobody knows either who did it.
	Work *Work `json:"-"`

	// On names where the files are, if that is not Dir: a volume.
	On string `json:"on,omitempty"`
}

// Files are the files of a workspace.
type Files interface {
	treedir.Source
	treedir.Target
	// Dir is where they lastingly are. The ID as a target is another one while
	// they are somewhere else.
	Dir() string
	Close() error
}

// Workspace opens the files of a workspace. A nil one has none that are kept.
type Workspace func() (Files, error)

// Local is the files of a directory of this machine.
func Local(dir string) Workspace {
	return func() (Files, error) {
		l, err := treedir.OpenLocal(dir)
		if err != nil {
			return nil, err
		}
		return localFiles{l}, nil
	}
}

// localFiles are always in their directory.
type localFiles struct{ *treedir.Local }

// Dir implements [Files].
func (l localFiles) Dir() string { return l.ID() }

// Bounds of a log and of a tree.
const (
	maxEntries  = 1000
	maxGrowth   = 4 << 30 // bytes that the trees but for the first have added
	maxShown    = 20      // of what was left out
	saveAfter   = 500     // files that were read since the cache was saved
	treeBytes   = 16 << 30
	treeEntries = 500_000
)

// leave are the names that a restore does not touch.
var leave = []string{".git"}

// Book is the checkpoints of one conversation. Its methods are safe for concurrent
// use.
type Book struct {
	dir, name string
	temporary bool // nobody continues the conversation: the log goes at Close

	mu     sync.Mutex // guards what follows, and is held while files are read or changed
	store  *objstore.Store
	log    *objstore.Log
	cache  *objstore.Cache
	of     string // whose files the cache knows, as the ID of a target
	lasts  bool   // they are the same for the next process
	unsave int    // files that were read since the cache was saved
	large  bool   // there is much in the files that were read last
	seen   []Entry
	next   int64
	others others
	here   *presence // nil until somebody asks for others
}

// temporaryPrefix begins the names of logs that end with their process.
const temporaryPrefix = "temporary-"

// Open opens the log of a name in the store of a directory, and makes both if
// they are missing. A new log takes what one of the name former has, if that is
// there, and its place. A temporary log is removed at Close, or by the next Open after
// its process was killed.
func Open(ctx context.Context, dir, name, former string, temporary bool) (*Book, error) {
	s, err := objstore.Open(dir)
	if err != nil {
		return nil, err
	}
	if temporary {
		name = temporaryPrefix + name
	}
	b := &Book{dir: dir, name: name, temporary: temporary, store: s}
	if b.log, err = s.OpenLog(name); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := b.inherit(ctx, former); err != nil {
		return nil, errors.Join(err, b.log.Close(), s.Close())
	}
	for _, ref := range b.log.Refs() {
		e, err := entryOf(ref)
		if err != nil {
			return nil, errors.Join(err, b.log.Close(), s.Close())
		}
		b.seen = append(b.seen, e)
		b.next = max(b.next, e.N)
	}
	b.removeOrphans(ctx)
	return b, nil
}

// inherit takes over a log that had another name, which may be empty for none.
func (b *Book) inherit(ctx context.Context, former string) error {
	if former == "" || former == b.name || len(b.log.Refs()) > 0 {
		return nil
	}
	refs, err := b.store.ReadLog(former)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(refs) == 0 {
		return nil
	}
	if err == nil {
		err = b.log.Replace(ctx, refs)
	}
	if err != nil {
		return err
	}
	_ = b.store.RemoveLog(former) // it is not read again
	return nil
}

func entryOf(ref objstore.Ref) (Entry, error) {
	e := Entry{N: ref.N, Tree: ref.Tree, Messages: int(ref.Offset)}
	if err := json.Unmarshal(ref.Data, &e.Note); err != nil {
		return e, fmt.Errorf("checkpoint %d: %w", ref.N, err)
	}
	return e, nil
}

// removeOrphans removes the temporary logs of processes that were killed.
func (b *Book) removeOrphans(ctx context.Context) {
	names, _ := b.store.Logs()
	removed := false
	for _, name := range names {
		if strings.HasPrefix(name, temporaryPrefix) && name != b.name {
			removed = b.store.RemoveLog(name) == nil || removed
		}
	}
	if removed {
		_, _ = b.store.Collect(ctx, nil) // else the next one does
	}
}

// ref is the entry as the log has it.
func (e *Entry) ref() (objstore.Ref, error) {
	data, err := json.Marshal(e.Note)
	return objstore.Ref{N: e.N, Tree: e.Tree, Offset: int64(e.Messages), Data: data}, err
}

// Close releases the store.
func (b *Book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil
	}
	if b.unsave > 0 {
		b.saveCache()
	}
	b.others.end()
	err := errors.Join(b.here.leave(), b.log.Close())
	if b.temporary {
		err = errors.Join(err, b.store.RemoveLog(b.name))
		_, _ = b.store.Collect(context.Background(), nil) // else the next one does
	}
	err = errors.Join(err, b.store.Close())
	b.store = nil
	return err
}

// errClosed is returned after Close.
var errClosed = errors.New("the checkpoints are closed")

// lock locks the book, unless it is closed.
func (b *Book) lock() (unlock func(), err error) {
	b.mu.Lock()
	if b.store == nil {
		b.mu.Unlock()
		return nil, errClosed
	}
	return b.mu.Unlock, nil
}

// Entries returns the checkpoints, the oldest first.
func (b *Book) Entries() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.seen), func(e Entry) bool { return !e.isCheckpoint() })
}

func (e *Entry) isCheckpoint() bool {
	return e.Kind != call && e.Kind != restoring && e.Kind != dropped && e.Kind != beginning && e.Kind != away
}

// hasFiles reports whether the entry is one of how the files were: a checkpoint, or one
// of a call.
func (e *Entry) hasFiles() bool { return e.isCheckpoint() || e.Kind == call }

// Find returns a checkpoint.
func (b *Book) Find(n int64) (Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.at(n); at >= 0 && b.seen[at].isCheckpoint() {
		return b.seen[at], nil
	}
	return Entry{}, fmt.Errorf("checkpoint %d: %w", n, ErrUnknown)
}

// at returns the index of an entry, or -1. The caller holds mu.
func (b *Book) at(n int64) int {
	at, ok := slices.BinarySearchFunc(b.seen, n, func(e Entry, n int64) int { return cmp.Compare(e.N, n) })
	if !ok {
		return -1
	}
	return at
}

// Take adds a checkpoint, with the files of a workspace. Work that ended the turn is
// that of an End. The oldest are dropped if there are too many.
func (b *Book) Take(ctx context.Context, w Workspace, e Entry) (Entry, error) {
	unlock, err := b.lock()
	if err != nil {
		return e, err
	}
	defer unlock()
	if b.pending() {
		return e, ErrUnfinished
	}
	if e.Kind == End && e.Work == nil {
		e.Work = &Work{Ran: true}
	}
	if e, err = b.take(ctx, w, e, nil); err != nil {
		return e, err
	}
	if e.Kind == End && len(b.others.doubts) == 0 {
		b.others.end()
	}
	if len(b.seen) > maxEntries || b.grown() > maxGrowth {
		_ = b.trim(ctx) // the next one tries again
	}
	return e, nil
}

// Unchanged adds the End of a turn in which nobody but the user may have changed a
// file, with the files of its start. It does nothing if that was not taken: the last one
// may be of another turn, whose changes are in no checkpoint.
func (b *Book) Unchanged(ctx context.Context, start, end Entry) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if len(b.seen) == 0 {
		return nil
	}
	taken := b.seen[len(b.seen)-1]
	if taken.Kind != Start && taken.Kind != Resumed || taken.Kind != start.Kind || !bytes.Equal(taken.Place, start.Place) {
		return nil
	}
	end.Kind, end.Tree, end.Dir, end.On, end.Head = End, taken.Tree, taken.Dir, taken.On, taken.Head
	end.Left, end.More = taken.Left, taken.More
	_, err = b.add(ctx, end)
	return err
}

// Begin notes a Start that is going to be taken. It belongs before the message of
// its turn.
func (b *Book) Begin(ctx context.Context, e Entry) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if b.pending() {
		return ErrUnfinished
	}
	e.Kind = beginning
	_, err = b.add(ctx, e)
	return err
}

// Begun returns the Start that is missing if the log ends with what Begin noted.
// That is meant for a book that was just opened.
func (b *Book) Begun() (e Entry, missing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.seen); n > 0 && b.seen[n-1].Kind == beginning {
		e = b.seen[n-1]
		return Entry{Messages: e.Messages, Note: Note{Kind: Start, Place: e.Place, Words: e.Words}}, true
	}
	return e, false
}

// Pending reports whether a restore was interrupted; see Recover.
func (b *Book) Pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending()
}

func (b *Book) pending() bool {
	return len(b.seen) > 0 && b.seen[len(b.seen)-1].Kind == restoring
}

// take adds an entry with the files of a workspace. changed are the names that were
// changed since they were read last, if that is all, or nil.
func (b *Book) take(ctx context.Context, w Workspace, e Entry, changed []string) (Entry, error) {
	if w != nil {
		if e.Work == nil && e.Kind != Restored {
			if err := b.betweenTurns(ctx); err != nil {
				return e, err
			}
		}
		if err := b.read(ctx, w, &e, changed); err != nil {
			return e, err
		}
	}
	e, err := b.add(ctx, e)
	if err != nil {
		b.store.Forget(e.Tree)
	}
	return e, err
}

// read takes the tree of a workspace. changed is as in take.
func (b *Book) read(ctx context.Context, w Workspace, e *Entry, changed []string) error {
	files, err := w()
	if err != nil {
		return err
	}
	defer files.Close()
	if id := files.ID(); b.of != id {
		b.cache, b.of, b.lasts = b.store.LoadCache(id), id, id == files.Dir()
		changed = nil
	}
	if e.Work != nil {
		if e.Work.Watch && onOf(files) == "" {
			b.others.begin(files.Dir())
		}
		b.others.look()
	}
	t, report, err := b.store.Take(ctx, files, b.cache, objstore.TakeOptions{Limits: tree.Limits{Bytes: treeBytes, Entries: treeEntries}, Changed: changed})
	if err != nil {
		return err
	}
	e.Tree, e.Dir, e.On, e.Stored, e.Head = t, files.Dir(), onOf(files), report.Stored, b.head(ctx, b.cache.Dir(".git"))
	b.large = report.Files > largeFiles || report.Bytes > largeBytes
	e.Left = report.LeftOut[:min(len(report.LeftOut), maxShown)]
	e.More = report.More + len(report.LeftOut) - len(e.Left)
	if e.Work != nil {
		if err := b.attribute(ctx, e); err != nil {
			b.store.Forget(t)
			return err
		}
	}
	if b.unsave += report.Read; b.unsave >= saveAfter {
		b.saveCache()
	}
	return nil
}

// saveCache keeps what is known of the files for the next process. It may be lost.
func (b *Book) saveCache() {
	if !b.temporary && b.lasts && b.store.SaveCache(b.name, b.of, b.cache) == nil {
		b.unsave = 0
	}
}

// add writes an entry to the log.
func (b *Book) add(ctx context.Context, e Entry) (Entry, error) {
	e.N, e.Time = b.next+1, time.Now().UTC().Round(0)
	ref, err := e.ref()
	if err == nil {
		err = b.log.Append(ctx, ref)
	}
	if err != nil {
		return e, err
	}
	b.next = e.N
	b.seen = append(b.seen, e)
	return e, nil
}

// grown is by how much all trees but the first have made the store grow.
func (b *Book) grown() (n int64) {
	for _, e := range b.seen[min(1, len(b.seen)):] {
		n += e.Stored
	}
	return n
}

// trim drops what calls have added if nobody else has changed anything there, and then
// the oldest entries, a quarter or more, and what only they need.
func (b *Book) trim(ctx context.Context) error {
	if joined := b.withoutCalls(); len(joined) < len(b.seen) {
		if err := b.rewrite(ctx, joined, func(*Entry) {}); err != nil {
			return err
		}
	}
	if len(b.seen) <= maxEntries*3/4 && b.grown() <= maxGrowth {
		return b.collect(ctx)
	}
	drop := len(b.seen) / 4
	for left := b.grown(); drop < len(b.seen)-1 && left > maxGrowth; drop++ {
		left -= b.seen[drop].Stored
	}
	kept := b.log.Refs()[drop:]
	if err := b.log.Replace(ctx, kept); err != nil {
		return err
	}
	b.seen = slices.Clone(b.seen[drop:])
	return b.collect(ctx)
}

func (b *Book) collect(ctx context.Context) error {
	if _, err := b.store.Collect(ctx, nil); err != nil && !errors.Is(err, objstore.ErrInUse) {
		return err
	}
	return nil
}
