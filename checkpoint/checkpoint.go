// Package checkpoint keeps checkpoints of an agent's conversation and of its workspace's
// files, so that a turn can be taken back:
//
//	agent, err := pygent.New(checkpoint.Keep(dir))
//	…
//	done, err := agent.Undo(ctx, 1) // done says what was changed, and what was not
//
// [pygent.Agent.Restore] leads to any of them, and [pygent.Agent.Fork] goes another way from
// one.
package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/screen"
)

// Keep keeps checkpoints of the conversation and of the workspace's files
// in a directory of this user, which several agents may use at once: one at the start
// of each turn, before the message of the user, and one at its end. With them a turn
// can be taken back: see [pygent.Agent.Undo], [pygent.Agent.Restore] and
// [pygent.Agent.Fork]. Of two such options the later one counts.
//
// In between, the files are compared before and after each call that may change some.
// What changes while the model is asked is yours, and an undo leaves it alone. What you
// change while a command runs is yours where this process may ask the kernel who wrote
// a file, as root may on Linux. Elsewhere an undo takes it back with what the command
// did, and names it ([pygent.Restored].Unsure); the checkpoint before the restore has it.
//
// A checkpoint costs what has changed since the one before. Left out are
// directories that .gitignore names or that other programs fill, such as
// node_modules, and ignored files of more than 1 MiB; nothing of that is touched by a
// restore. The first one reads all files while the model is asked; the first tool
// call waits for it, which [pygent.EventKeeping] tells if that takes more than a second. The
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
// The checkpoints of an agent with [pygent.WithHistoryFile] are found again by the next one
// with the same file. Others end with their agent. An empty dir keeps none, which is
// the default.
func Keep(dir string) pygent.Option { return pygent.WithExtension(keep{dir}) }

// RemoveOrphans removes the checkpoints in a directory of [Keep] that belong to sessions of
// the directory sessions which are not there any more. A directory that does not exist has
// none.
func RemoveOrphans(ctx context.Context, dir, sessions string) error {
	if err := checkpoint.RemoveOrphans(ctx, dir, sessions); err != nil {
		return fmt.Errorf("remove checkpoints: %w", err)
	}
	return nil
}

// keep is the extension.
type keep struct{ dir string }

// Name implements [pygent.Extension].
func (keep) Name() string { return "checkpoint" }

// Open implements [pygent.Extension].
func (e keep) Open(_ context.Context, h *pygent.Host) (pygent.Lifecycle, error) {
	if e.dir == "" {
		return pygent.Lifecycle{}, nil
	}
	k := &keeper{dir: e.dir, host: h, told: map[string]bool{}}
	k.agent = bridge.Keep(h.Agent, k).(agent)
	return pygent.Lifecycle{}, nil
}

// agent is what a keeper needs of its agent that is not public.
type agent interface {
	Emit(e pygent.Event)
	Notice(text string)

	Place() chat.Rewind
	CanRewind(mark chat.Rewind) bool
	Rewind(ctx context.Context, mark chat.Rewind) error
	LastRewind() *chat.Rewind
	Entries() []chat.HistoryEntry
	Complete(ctx context.Context) error
	Restoring(ctx context.Context, f func(context.Context) (pygent.Restored, error)) (pygent.Restored, error)
	Rewound(ctx context.Context, done *pygent.Restored, before []chat.HistoryEntry)

	NoteChanges(changes []pygent.FileChange)
	Change(name string, before []byte, created bool, after string) pygent.FileChange

	Workspace() (dir string, info pygent.RuntimeInfo)
	IsLent() bool
	NextDir() string
	BeginsEmpty() bool
	JobsRun(ctx context.Context) bool

	Session() string
	IsKept() bool
	KilledIn() string
	WasTemporary(dir string) bool
}

// keeper keeps the checkpoints of an agent, which calls it.
type keeper struct {
	dir   string
	host  *pygent.Host
	agent agent

	book   *checkpoint.Book // nil where none are kept; never changed after New
	closed error            // why not
	// putsBack says that the last one's files go into the new workspace; set by Open.
	putsBack bool
	home     *homecoming // what is to be told of files that were in a volume; nil for nothing

	opened chan struct{} // closed when those of a turn that was killed are made; nil for none
	// stop ends them, and the one at the start of a turn, for the next agent to make.
	stop    atomic.Pointer[context.CancelCauseFunc]
	working sync.WaitGroup // what makes checkpoints

	// The rest belongs to who makes or runs the agent, and to what makes a checkpoint until
	// taking is closed.
	taking chan struct{}   // closed when the checkpoint that is made is done; nil for none
	far    *progress.Level // how far it is; safe for concurrent use
	// repaired is how far those are that opened closes after, until the first turn begins.
	repaired *progress.Level
	noFiles  string          // why files are not kept; empty if they are
	told     map[string]bool // what was warned of
	untold   []pygent.Event  // what the next run tells
}

func (k *keeper) log() *slog.Logger { return k.host.Logger }

// Open opens the checkpoints, before there is a runtime. A failure is no error: a run warns.
func (k *keeper) Open(ctx context.Context) (putsBack bool, err error) {
	name, former, temporary := k.logName()
	book, err := checkpoint.Open(context.Background(), k.dir, name, former, temporary)
	if err != nil {
		k.closed = err
		k.warn("checkpoints are off, and nothing can be undone: " + err.Error())
		return false, nil
	}
	k.book = book
	k.saveLeft()
	if err := k.bringHome(ctx); err != nil {
		return false, err
	}
	last, found := book.Last()
	k.putsBack = k.agent.Session() != "" && k.agent.BeginsEmpty() && found && !last.Tree.IsZero() && k.agent.WasTemporary(last.Dir)
	return k.putsBack, nil
}

// logName returns the name of the agent's log, what it was before, and whether it ends with
// the agent.
func (k *keeper) logName() (name, former string, temporary bool) {
	if dir := k.agent.Session(); dir != "" {
		name, former = checkpoint.LogOfSession(k.dir, dir)
		return name, former, false
	}
	return owner.IDOf(k.host.Agent.ID()), "", !k.agent.IsKept()
}

// Ready says whether checkpoints have files, and finishes a restore that was interrupted.
func (k *keeper) Ready() {
	if k.book == nil {
		return
	}
	if k.isInside() {
		k.noFiles = fmt.Sprintf("checkpoints contain only the conversation, not files, because they are stored in the workspace itself, in %s", k.dir)
		k.warn(k.noFiles)
	}
	if text := k.besideOthers(); text != "" {
		k.agent.Notice(text)
		k.told[text] = true
	}
	k.tellHome()
	k.finishRestore(context.Background())
	k.keepKilled()
}

// besideOthers returns what to tell of others that work in the workspace; "" for nothing.
func (k *keeper) besideOthers() string {
	dir, info := k.agent.Workspace()
	if dir == "" || info.Temporary || k.agent.IsLent() {
		return ""
	}
	text, err := k.book.Beside(pathname.Real(dir))
	if err != nil {
		k.log().Warn("whether others work in the workspace is not known", "error", err)
	}
	return text
}

// isInside reports whether the checkpoints are in the workspace.
func (k *keeper) isInside() bool {
	dir, _ := k.agent.Workspace()
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(pathname.Real(dir), pathname.Real(k.dir))
	return err == nil && filepath.IsLocal(rel)
}

// workTree is a runtime of package pygent. In a directory of this machine the files are read
// and changed there, also beside a container that mounts it: it takes half the time. The
// guest is asked for what this process may not read or change, and for all of a volume.
type workTree interface {
	OpenWorkTree() (*sandbox.WorkTree, error)
}

// filesOf returns how the files of a runtime are read and changed; nil if they cannot be.
func filesOf(rt pygent.Runtime) checkpoint.Workspace {
	tree, ours := pygent.RuntimeAs[workTree](rt)
	if !ours {
		return nil
	}
	return func() (checkpoint.Files, error) {
		w, err := tree.OpenWorkTree()
		if err != nil {
			return nil, err // not a nil *WorkTree
		}
		return w, nil
	}
}

func (k *keeper) files() checkpoint.Workspace { return filesOf(k.host.Agent.Runtime()) }

// keptFiles returns the files that a checkpoint gets, or nil.
func (k *keeper) keptFiles() checkpoint.Workspace {
	if k.noFiles != "" {
		return nil
	}
	files := k.files()
	if files == nil {
		k.noFiles = "checkpoints contain only the conversation: this runtime cannot list its files"
		k.tell(pygent.Event{Type: pygent.EventNotice, Text: k.noFiles})
	}
	return files
}

// warn has the next run warn of something, once.
func (k *keeper) warn(text string) {
	k.tell(pygent.Event{Type: pygent.EventWarning, Text: text})
}

func (k *keeper) tell(e pygent.Event) {
	if k.told[e.Text] {
		return
	}
	k.told[e.Text] = true
	k.untold = append(k.untold, e)
}

// Closing makes a checkpoint of a temporary workspace before that goes, and waits for the
// one that is made.
func (k *keeper) Closing() {
	if k.book == nil {
		return
	}
	k.settleTemporary()
	k.end()
}

// end waits for a checkpoint that is made.
func (k *keeper) end() {
	if stop := k.stop.Load(); stop != nil {
		(*stop)(errNextTime)
	}
	k.working.Wait()
}

// Close closes the book. If the runtime is cleaned up, the files are back from a volume.
func (k *keeper) Close(cleaned bool) error {
	if k.book == nil {
		return nil
	}
	k.end()
	if cleaned {
		k.cameHome()
	}
	return k.book.Close()
}

// cameHome notes that the files are back from a volume.
func (k *keeper) cameHome() {
	dir, info := k.agent.Workspace()
	if dir == "" || k.agent.IsLent() || info.Temporary {
		return
	}
	if err := k.book.CameHome(context.Background(), dir); err != nil {
		// The next agent puts them back again, which changes nothing.
		k.log().Warn("that the files are back from the volume is not noted", "error", err)
	}
}

// missing is the error where no checkpoints are kept; nil where they are.
func (k *keeper) missing() error {
	if k.book == nil {
		return fmt.Errorf("%w: %w", pygent.ErrNoCheckpoints, k.closed)
	}
	return nil
}

// awaitOpened waits for the checkpoints that an agent makes when it is opened.
func (k *keeper) awaitOpened() {
	if k.opened != nil {
		<-k.opened
	}
}

// List returns the checkpoints, the oldest first.
func (k *keeper) List() []pygent.Checkpoint {
	if k.book == nil {
		return nil
	}
	k.awaitOpened()
	entries := k.book.Entries()
	list := make([]pygent.Checkpoint, len(entries))
	for i, e := range entries {
		list[i] = described(e)
		last := entries[len(entries)-1].Head
		list[i].HeadMoved = e.Head != "" && last != "" && e.Head != last
	}
	return list
}

// Before returns the checkpoint before the last turns.
func (k *keeper) Before(turns int) (pygent.Checkpoint, error) {
	if err := k.missing(); err != nil {
		return pygent.Checkpoint{}, err
	}
	k.awaitOpened()
	e, err := k.book.Undone(turns)
	return described(e), err
}

// Find returns the mark that leads to a checkpoint, and whether that has files.
func (k *keeper) Find(id int64) (mark chat.Rewind, hasFiles bool, err error) {
	if err := k.missing(); err != nil {
		return mark, false, err
	}
	e, err := k.book.Find(id)
	if err == nil {
		mark, err = markOf(e)
	}
	return mark, !e.Tree.IsZero(), err
}

// Export puts the files of a checkpoint into the workspace of a runtime.
func (k *keeper) Export(ctx context.Context, id int64, to pygent.Runtime) error {
	files := filesOf(to)
	if files == nil {
		return errOtherRuntime
	}
	return k.book.Export(ctx, id, files)
}

func described(e checkpoint.Entry) pygent.Checkpoint {
	c := pygent.Checkpoint{
		ID: e.N, Kind: pygent.CheckpointKind(e.Kind), Time: e.Time, Message: e.Words, Messages: e.Messages,
		Files: !e.Tree.IsZero(), MoreLeftOut: e.More, Commit: e.Head,
	}
	for _, l := range e.Left {
		c.LeftOut = append(c.LeftOut, oneLine(l.Name)+": "+oneLine(l.Why))
	}
	return c
}

// oneLine is a line of a text that others made, without control characters.
func oneLine(text string) string {
	const most = 200 // bytes
	return screen.Visible(cut.Line(text, most))
}

// markOf returns the mark that leads to a checkpoint.
func markOf(e checkpoint.Entry) (mark chat.Rewind, err error) {
	if err := json.Unmarshal(e.Place, &mark); err != nil {
		return mark, fmt.Errorf("checkpoint %d: %w", e.N, err)
	}
	return mark, nil
}

// conversation is that of an agent for its book.
type conversation struct{ agent agent }

// Place implements [checkpoint.Conversation].
func (c conversation) Place() (checkpoint.Place, int) {
	mark := c.agent.Place()
	place, _ := json.Marshal(mark) // numbers and a digest
	return place, mark.Messages
}

// Rewind implements [checkpoint.Conversation].
func (c conversation) Rewind(ctx context.Context, to checkpoint.Entry, restore int64) error {
	mark, err := markOf(to)
	if err != nil {
		return err
	}
	mark.Restore = restore
	return c.agent.Rewind(ctx, mark)
}

// Rewound implements [checkpoint.Conversation].
func (c conversation) Rewound(restore int64) bool {
	last := c.agent.LastRewind()
	return last != nil && last.Restore == restore
}

// atPlace returns an entry of a kind for the conversation as it is now.
func (k *keeper) atPlace(kind checkpoint.Kind, words string) checkpoint.Entry {
	e := checkpoint.Entry{Note: checkpoint.Note{Kind: kind, Words: words}}
	e.Place, e.Messages = conversation{k.agent}.Place()
	return e
}
