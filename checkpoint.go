package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/treedir"
)

// Errors of checkpoints, for use with errors.Is.
var (
	// ErrNoCheckpoints is returned where checkpoints are not kept: see [WithCheckpoints].
	ErrNoCheckpoints = errors.New("no checkpoints are kept")
	// ErrUnknownCheckpoint is returned for a checkpoint that there is not, or not any
	// more.
	ErrUnknownCheckpoint = checkpoint.ErrUnknown
	// ErrNothingToUndo is returned by [Agent.Undo] where there are fewer turns.
	ErrNothingToUndo = checkpoint.ErrNothingToUndo
	// ErrNothingToRedo is returned by [Agent.Redo] if nothing was undone since the last
	// turn.
	ErrNothingToRedo = checkpoint.ErrNothingToRedo
)

// WithCheckpoints keeps checkpoints of the conversation and of the workspace's files
// in a directory of this user, which several agents may use at once: one at the start
// of each turn, before the message of the user, and one at its end. With them a turn
// can be taken back: see [Agent.Undo], [Agent.Restore] and [Agent.Fork].
//
// In between, the files are compared before and after each call that may change some.
// What changes while the model is asked is yours, and an undo leaves it alone. What you
// change while a command runs is yours where this process may ask the kernel who wrote
// a file, as root may on Linux. Elsewhere an undo takes it back with what the command
// did, and names it ([Restored].Unsure); the checkpoint before the restore has it.
//
// A checkpoint costs what has changed since the one before. Left out are
// directories that .gitignore names or that other programs fill, such as
// node_modules, and ignored files of more than 1 MiB; nothing of that is touched by a
// restore. The first one reads all files while the model is asked; the first tool
// call waits for it, which [EventKeeping] tells if that takes more than a second. The
// oldest are dropped where there are more than some hundreds.
//
// Files in a volume of a remote engine are read and changed there. If the process is
// killed meanwhile, the next agent puts those of the last checkpoint into the
// directory of the workspace, takes the conversation back to it if that tells more,
// and says so; a file that was changed in the directory, too, stays, and is named.
// Of the files of a runtime of your own no checkpoints are kept, only of the
// conversation; an event says so. Where a checkpoint fails, for lack of room say, the
// run goes on, and an event warns once.
//
// The checkpoints of an agent with [WithHistoryFile] are found again by the next one
// with the same file. Others end with their agent. An empty dir keeps none, which is
// the default.
func WithCheckpoints(dir string) Option {
	return option(func(o *options) { o.checkpoints = checkpointOptions{dir, openBook} })
}

// CheckpointKind says at which moment a [Checkpoint] was made.
type CheckpointKind string

// The kinds of checkpoints.
const (
	CheckpointStart    CheckpointKind = "start"    // before a message of the user
	CheckpointEnd      CheckpointKind = "end"      // at the end of its turn
	CheckpointResumed  CheckpointKind = "resumed"  // before a turn goes on that had ended
	CheckpointBefore   CheckpointKind = "before"   // before an undo, a redo or another restore
	CheckpointRestored CheckpointKind = "restored" // after one
)

// Checkpoint is how the conversation and the files were at a moment.
type Checkpoint struct {
	ID   int64          `json:"id"` // from 1, rising
	Kind CheckpointKind `json:"kind"`
	Time time.Time      `json:"time"`
	// Message is the beginning of what the user said then, of a CheckpointStart. It
	// has no control characters.
	Message  string `json:"message,omitempty"`
	Messages int    `json:"messages"`        // of the history, without the system message
	Files    bool   `json:"files,omitempty"` // it has the files of the workspace, too
	// LeftOut is what was left out of the files, and why; at most 20 of it.
	LeftOut     []string `json:"left_out,omitempty"`
	MoreLeftOut int      `json:"more_left_out,omitempty"` // what is not listed
	// Commit is what git had checked out, as far as that is known. HeadMoved says that
	// it was another one at the last checkpoint. A restore leaves .git alone,
	// unless the agent has removed or replaced it.
	Commit    string `json:"commit,omitempty"`
	HeadMoved bool   `json:"head_moved,omitempty"`
}

// Checkpoints returns the checkpoints, the oldest first. It waits for one that is
// being made. The agent may be at work.
func (a *Agent) Checkpoints() []Checkpoint {
	if a.checkpoints.book == nil {
		return nil
	}
	a.checkpoints.awaitOpened()
	entries := a.checkpoints.book.Entries()
	list := make([]Checkpoint, len(entries))
	for i, e := range entries {
		list[i] = checkpointOf(e)
		last := entries[len(entries)-1].Head
		list[i].HeadMoved = e.Head != "" && last != "" && e.Head != last
	}
	return list
}

func checkpointOf(e checkpoint.Entry) Checkpoint {
	c := Checkpoint{
		ID: e.N, Kind: CheckpointKind(e.Kind), Time: e.Time, Message: e.Words, Messages: e.Messages,
		Files: !e.Tree.IsZero(), MoreLeftOut: e.More, Commit: e.Head,
	}
	for _, l := range e.Left {
		c.LeftOut = append(c.LeftOut, oneLine(l.Name, maxLeftOutName)+": "+oneLine(l.Why, maxLeftOutName))
	}
	return c
}

// Bounds of what a checkpoint tells, in bytes.
const (
	maxLeftOutName = 200
	maxTurnWords   = 100
)

// CheckpointBefore returns the checkpoint before the last turns, as many as said,
// that were not undone. The error matches [ErrNothingToUndo] where there are fewer.
func (a *Agent) CheckpointBefore(turns int) (Checkpoint, error) {
	if a.checkpoints.book == nil {
		return Checkpoint{}, a.checkpoints.missing()
	}
	a.checkpoints.awaitOpened()
	e, err := a.checkpoints.book.Undone(turns)
	return checkpointOf(e), err
}

// keptCheckpoints is what an agent has of its checkpoints.
type keptCheckpoints struct {
	book   checkpointBook // nil where none are kept; never changed after New
	closed error          // why not, if they were asked for
	// putsBack says that the last one's files go into the new workspace; set by New.
	putsBack bool
	home     *homecoming // what is to be told of files that were in a volume; nil for nothing

	opened chan struct{} // closed when those of a turn that was killed are made; nil for none
	// stop ends them, and the one at the start of a turn, for the next agent to make.
	stop    atomic.Pointer[context.CancelCauseFunc]
	working sync.WaitGroup // what makes checkpoints

	// The rest is guarded by busy, and belongs to what makes a checkpoint until taking
	// is closed.
	taking chan struct{}   // closed when the checkpoint that is made is done; nil for none
	far    *progress.Level // how far it is; safe for concurrent use
	// repaired is how far those are that opened closes after, until the first turn begins.
	repaired *progress.Level
	noFiles  string          // why files are not kept; empty if they are
	told     map[string]bool // what was warned of
	untold   []Event         // what the next run tells
}

func (k *keptCheckpoints) missing() error {
	if k.closed != nil {
		return fmt.Errorf("%w: %w", ErrNoCheckpoints, k.closed)
	}
	return fmt.Errorf("%w: see WithCheckpoints", ErrNoCheckpoints)
}

// openCheckpoints opens the checkpoints that options ask for, before there is a
// runtime. That this fails is no error: a run tells.
func (a *Agent) openCheckpoints() {
	dir := a.opts.checkpoints.dir
	if dir == "" {
		return
	}
	name, former, temporary := a.checkpointLog()
	book, err := a.opts.checkpoints.open(context.Background(), dir, name, former, temporary)
	if err != nil {
		a.checkpoints.closed = err
		a.checkpoints.warn("no checkpoints are kept, and nothing can be undone: " + err.Error())
		return
	}
	a.checkpoints.book = book
	a.saveLeft()
}

// settleCheckpoints says whether checkpoints have files, and finishes a restore that
// was interrupted.
func (a *Agent) settleCheckpoints() {
	if a.checkpoints.book == nil {
		return
	}
	if dir := a.opts.checkpoints.dir; a.keepsInside(dir) {
		a.checkpoints.noFiles = fmt.Sprintf("checkpoints have the conversation alone, and no files, because they are kept in the workspace itself, in %s", dir)
		a.checkpoints.warn(a.checkpoints.noFiles)
	}
	if text := a.besideOthers(); text != "" {
		a.tellAtFirst(text)
		a.checkpoints.told = map[string]bool{text: true}
	}
	a.tellHome()
	a.finishRestore(context.Background())
	a.keepKilled()
}

// besideOthers returns what to tell of others that work in the workspace; "" for nothing.
func (a *Agent) besideOthers() string {
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if !ours || rt.info.Temporary || a.opts.lent {
		return ""
	}
	text, err := a.checkpoints.book.Beside(pathname.Real(rt.Dir()))
	if err != nil {
		a.log.Warn("whether others work in the workspace is not known", "error", err)
	}
	return text
}

// keepsInside reports whether a directory is in the workspace.
func (a *Agent) keepsInside(dir string) bool {
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if !ours {
		return false
	}
	rel, err := filepath.Rel(pathname.Real(rt.Dir()), pathname.Real(dir))
	return err == nil && filepath.IsLocal(rel)
}

// files returns how the files of the workspace are read and changed; nil if they
// cannot be. In a directory of this machine that happens there, also beside a
// container that mounts it: it takes half the time. The guest is asked for what this
// process may not read or change, and for all of a volume.
func (a *Agent) files() checkpoint.Workspace {
	rt, ours := RuntimeAs[interface {
		OpenWorkTree() (*sandbox.WorkTree, error)
	}](a.runtime)
	if !ours {
		return nil
	}
	return func() (checkpoint.Files, error) {
		w, err := rt.OpenWorkTree()
		if err != nil {
			return nil, err // not a nil *WorkTree
		}
		return w, nil
	}
}

// keptFiles returns the files that a checkpoint gets, or nil.
func (a *Agent) keptFiles() checkpoint.Workspace {
	if a.checkpoints.noFiles != "" {
		return nil
	}
	files := a.files()
	if files == nil {
		a.checkpoints.noFiles = "checkpoints have the conversation alone: the files of this runtime are not known"
		a.checkpoints.tell(Event{Type: EventNotice, Text: a.checkpoints.noFiles})
	}
	return files
}

// warn has the next run warn of something, once.
func (k *keptCheckpoints) warn(text string) { k.tell(Event{Type: EventWarning, Text: text}) }

func (k *keptCheckpoints) tell(e Event) {
	if k.told[e.Text] {
		return
	}
	if k.told == nil {
		k.told = map[string]bool{}
	}
	k.told[e.Text] = true
	k.untold = append(k.untold, e)
}

// tellCheckpoints emits what is to be told of checkpoints.
func (a *Agent) tellCheckpoints() {
	for _, e := range a.checkpoints.untold {
		a.emit(e)
	}
	a.checkpoints.untold = nil
}

// endCheckpoints waits for a checkpoint that is made.
func (a *Agent) endCheckpoints() {
	k := &a.checkpoints
	if stop := k.stop.Load(); stop != nil {
		(*stop)(errNextTime)
	}
	k.working.Wait()
}

// closeCheckpoints waits for a checkpoint that is made, and closes the book.
func (a *Agent) closeCheckpoints() error {
	if a.checkpoints.book == nil {
		return nil
	}
	a.endCheckpoints()
	return a.checkpoints.book.Close()
}

// conversationOf is the conversation of an agent for its checkpoints.
type conversationOf struct{ agent *Agent }

// Place implements [checkpoint.Conversation].
func (c conversationOf) Place() (checkpoint.Place, int) {
	mark := c.agent.history.place()
	place, _ := json.Marshal(mark) // numbers and a digest
	return place, mark.Messages
}

// markOf returns the mark that leads to a checkpoint.
func markOf(e checkpoint.Entry) (mark Rewind, err error) {
	if err := json.Unmarshal(e.Place, &mark); err != nil {
		return mark, fmt.Errorf("checkpoint %d: %w", e.N, err)
	}
	return mark, nil
}

// Rewind implements [checkpoint.Conversation].
func (c conversationOf) Rewind(ctx context.Context, to checkpoint.Entry, restore int64) error {
	mark, err := markOf(to)
	if err != nil {
		return err
	}
	mark.Restore = restore
	return c.agent.history.rewind(ctx, mark)
}

// Rewound implements [checkpoint.Conversation].
func (c conversationOf) Rewound(restore int64) bool {
	all := c.agent.history.shared()
	at := lastRewind(all)
	return at >= 0 && all[at].Rewind.Restore == restore
}

// Differences returns how the files differ between two checkpoints; 0 for to stands
// for the files as they are now. There are at most 1,000 with 4 MiB of text, sorted
// by path; more says that there are others. What is in .git is not told.
func (a *Agent) Differences(ctx context.Context, from, to int64) (changes []FileChange, more bool, err error) {
	if a.checkpoints.book == nil {
		return nil, false, a.checkpoints.missing()
	}
	size := 0
	err = a.checkpoints.book.Compare(ctx, a.files(), from, to, maxFormer, func(d checkpoint.Difference) error {
		if len(changes) == maxChanges || size > maxChangeBytes {
			return errEnough
		}
		c := differenceOf(d)
		size += len(c.Before) + len(c.After)
		changes = append(changes, c)
		return nil
	})
	if errors.Is(err, errEnough) {
		more, err = true, nil
	}
	slices.SortFunc(changes, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes, more, err
}

var errEnough = errors.New("enough differences")

func differenceOf(d checkpoint.Difference) FileChange {
	c := FileChange{Path: d.Name}
	switch {
	case d.TooLarge:
		c.Note = fmt.Sprintf("from %d to %d bytes, too many to compare", d.OldSize, d.NewSize)
	case d.Mode:
		c.Note = "its permissions changed"
	case d.OldKind == treedir.Link || d.NewKind == treedir.Link:
		c.Note = linkNote(d)
	default:
		c = formerText{data: d.Old, missing: d.OldKind == treedir.None}.becomes(d.Name, string(d.New))
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
