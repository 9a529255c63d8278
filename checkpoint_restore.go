package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/mention"
	"github.com/x/pygent/internal/numeral"
)

// Restored says what a restore did.
type Restored struct {
	To   Checkpoint `json:"to"`   // what was restored
	From Checkpoint `json:"from"` // how it was before; restoring it takes the restore back
	Undo bool       `json:"undo,omitempty"`

	// Gone is how many messages are not in the conversation any more, and Back how
	// many are again. Message is the user's message that is gone, the first if there
	// are several, to be edited and sent again.
	Gone    int      `json:"gone,omitempty"`
	Back    int      `json:"back,omitempty"`
	Message *Message `json:"message,omitempty"`

	// Earlier says that the conversation is again the one before the last
	// [Agent.NewConversation].
	Earlier bool `json:"earlier,omitempty"`

	// Changed are the files that were changed, at most 1,000 of them.
	Changed     []FileChange `json:"changed,omitempty"`
	MoreChanged bool         `json:"more_changed,omitempty"`
	// Kept are the files that are not as they were in the checkpoint.
	Kept []KeptFile `json:"kept,omitempty"`
	// Unsure are the files among Changed of which nobody knows whether the agent or
	// somebody else changed them, while a command ran. How they were is in From.
	Unsure []string `json:"unsure,omitempty"`
	// NoFiles says why no files were restored; it is empty if they were.
	NoFiles string `json:"no_files,omitempty"`
	// Repositories are the directories .git that were put back, with their commits and
	// branches, because turns had removed or replaced them.
	Repositories []string `json:"repositories,omitempty"`
	// HeadMoved says that git has another commit checked out than then. It is left as
	// it is: see Commit of From and To.
	HeadMoved bool `json:"head_moved,omitempty"`
	// Jobs is how many commands in the background go on.
	Jobs int `json:"jobs,omitempty"`
}

// KeptFile is a file that a restore has left as it was.
type KeptFile struct {
	Path string `json:"path"`
	// Why says what is in the way of the change that the agent's turns would be taken
	// back by. It is empty for a file that the user has changed, and not the agent.
	Why string `json:"why,omitempty"`
	// Aside is the name of a file with what was there, if that could not be put back.
	Aside string `json:"aside,omitempty"`
}

// String says in a line what was done, for people.
func (r Restored) String() string {
	var what []string
	if r.Gone > 0 {
		what = append(what, numeral.Count(r.Gone, "message")+" taken back")
	}
	if r.Earlier {
		what = append(what, "the conversation goes on from before the new one began")
	}
	if r.Back > 0 {
		what = append(what, numeral.Count(r.Back, "message")+" brought back")
	}
	switch {
	case r.NoFiles != "":
		what = append(what, "the files stay as they are: "+r.NoFiles)
	case r.MoreChanged:
		what = append(what, fmt.Sprintf("more than %d files changed", len(r.Changed)))
	default:
		what = append(what, numeral.Count(len(r.Changed), "file")+" changed")
	}
	if len(r.Kept) > 0 {
		what = append(what, numeral.Count(len(r.Kept), "file")+" kept as you left them")
	}
	if len(r.Repositories) > 0 {
		what = append(what, "put back the repository "+oneLine(strings.Join(r.Repositories, ", "), maxLeftOutName))
	}
	if r.HeadMoved {
		what = append(what, fmt.Sprintf("git's HEAD stays at %.12s; it was at %.12s", r.From.Commit, r.To.Commit))
	}
	return strings.Join(what, ", ")
}

// Bounds of what [Restored.Notes] names.
const (
	notedKept = 20
	notedLeft = 3
	// notedUnsure are more, since they may be lost to a person who does not know.
	notedUnsure = 10
)

// Notes says in a line each what is not as it was at the checkpoint, for people: files
// that were kept, what is in no checkpoint, and commands that go on. The lines have no
// control characters.
func (r Restored) Notes() (notes []string) {
	for i, k := range r.Kept {
		if i == notedKept {
			notes = append(notes, numeral.Count(len(r.Kept)-i, "more file")+" kept")
			break
		}
		why := "you have changed it since"
		if k.Why != "" {
			why = oneLine(k.Why, maxLeftOutName)
		}
		if k.Aside != "" {
			why += "; what was there is in " + oneLine(k.Aside, maxLeftOutName)
		}
		notes = append(notes, "kept "+oneLine(k.Path, maxLeftOutName)+": "+why)
	}
	if named := r.Unsure[:min(notedUnsure, len(r.Unsure))]; len(named) > 0 {
		text := oneLine(strings.Join(named, ", "), maxLeftOutName)
		if others := len(r.Unsure) - len(named); others > 0 {
			text += " and " + numeral.Count(others, "other")
		}
		redo := map[bool]string{true: "/redo or "}[r.Undo]
		notes = append(notes, fmt.Sprintf("changed while a command ran, so taken back as its work: %s (if you changed one of them, %scheckpoint %d has it)", text, redo, r.From.ID))
	}
	if named := r.To.LeftOut[:min(notedLeft, len(r.To.LeftOut))]; len(named) > 0 && r.NoFiles == "" {
		left := strings.Join(named, ", ")
		if others := len(r.To.LeftOut) + r.To.MoreLeftOut - len(named); others > 0 {
			left += " and " + numeral.Count(others, "other")
		}
		notes = append(notes, "left as it is, since checkpoints leave it out: "+left)
	}
	if files := unnamedFiles(r.Message); len(files) > 0 {
		notes = append(notes, "the message had with it what it does not name, to be attached again: "+strings.Join(files, ", "))
	}
	if r.Jobs > 0 {
		notes = append(notes, numeral.Count(r.Jobs, "command")+" in the background, which a restore does not end: /jobs")
	}
	return notes
}

// unnamedFiles are the files of a message that do not come with its text when that is
// said again, because it does not mention them.
func unnamedFiles(m *Message) (files []string) {
	if m == nil {
		return nil
	}
	named := slices.Concat(mention.Names(typed(*m))...)
	for _, p := range m.Parts {
		isMedia := p.ImageURL != "" || p.FileURL != "" || p.AudioURL != ""
		if !isMedia && p.FileName == "" || slices.Contains(named, p.FileName) {
			continue
		}
		files = append(files, oneLine(cmp.Or(p.FileName, "an attachment"), maxLeftOutName))
	}
	return files
}

// Undo takes back the last turns, as many as said: it restores the checkpoint before
// them. See [Agent.Restore]. The error matches [ErrNothingToUndo] where there are
// fewer.
func (a *Agent) Undo(ctx context.Context, turns int) (Restored, error) {
	return a.restore(ctx, "undo", func() (checkpoint.Entry, error) { return a.checkpoints.book.Undone(turns) })
}

// Redo takes the last undo back, and the one before it the next time. The error
// matches [ErrNothingToRedo] if there was none since the last turn.
func (a *Agent) Redo(ctx context.Context) (Restored, error) {
	return a.restore(ctx, "redo", func() (checkpoint.Entry, error) { return a.checkpoints.book.Redone() })
}

// Restore makes the conversation and the files of the workspace what they were at a
// checkpoint. The history keeps everything: a [Rewind] in it says from where the
// conversation goes on. How it was before is a checkpoint, too, so each restore can
// be taken back by another. An [EventRestored] tells.
//
// To go back, the turns of the agent are taken back, with what its commands did. A
// file that the user has changed since, also between two turns, is never
// overwritten: it stays, and the result names it. So does what others have changed in
// between the calls of a turn; see [WithCheckpoints] for what changes during one. .git
// stays as it is, and the result says if its HEAD was another; but a repository that the
// agent has removed, or put another one in the place of, is put back, and one that cannot
// be is named. Files that were left out of the checkpoint
// stay, too, and commands in the background and tasks go on.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. Once it
// has begun, it does not end with ctx. If the process is killed meanwhile, the next
// agent with the same history and checkpoints makes the rest of it.
func (a *Agent) Restore(ctx context.Context, id int64) (Restored, error) {
	return a.restore(ctx, fmt.Sprintf("restore checkpoint %d", id), func() (checkpoint.Entry, error) { return a.checkpoints.book.Find(id) })
}

func (a *Agent) restore(ctx context.Context, what string, find func() (checkpoint.Entry, error)) (done Restored, err error) {
	if a.checkpoints.book == nil {
		return done, fmt.Errorf("%s: %w", what, a.checkpoints.missing())
	}
	err = a.aside(ctx, func(r *run) error {
		if err := r.keptCheckpoint(r.ctx); err != nil {
			return err
		}
		to, err := find()
		if err == nil {
			done, err = r.restore(r.ctx, to)
		}
		return err
	})
	if errors.Is(err, ErrAgentBusy) {
		return done, fmt.Errorf("%s: the agent is at work; interrupt it or wait for its end: %w", what, err)
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", what, err)
	}
	return done, nil
}

// restore leads back to a checkpoint, and tells of it.
func (r *run) restore(ctx context.Context, to checkpoint.Entry) (Restored, error) {
	a := r.agent
	if err := a.history.catchUp(ctx); err != nil {
		return Restored{}, err
	}
	if err := a.history.answerOpenCalls(ctx); err != nil {
		return Restored{}, err
	}
	mark, err := markOf(to)
	if err == nil && !a.history.canRewind(mark) {
		err = fmt.Errorf("checkpoint %d: its messages are not in the history: %w", to.N, ErrHistoryChanged)
	}
	if err != nil {
		return Restored{}, err
	}
	before := a.history.current()
	out, err := a.checkpoints.book.Restore(ctx, a.restorableFiles(), to.N, conversationOf{a})
	if err != nil {
		return Restored{}, err
	}
	a.forgetTurns()
	done := a.restored(ctx, out, before)
	context := ContextUse{Estimated: true, Window: a.window("")}
	if specs, err := a.refreshSystem(ctx); err == nil {
		context.Used = a.memoryOf(a.currentModel()).gauge.Tokens(a.requestWeight(specs))
	}
	r.emit(Event{Type: EventRestored, Restored: &done, Text: done.String(), Context: context, Messages: a.history.spoken()})
	return done, nil
}

// restorableFiles are the files that a restore may change, or nil.
func (a *Agent) restorableFiles() checkpoint.Workspace {
	if a.checkpoints.noFiles != "" {
		return nil
	}
	return a.files()
}

// forgetTurns forgets what is known from turns that may not be in effect any more.
// The next run learns it from the conversation again.
func (a *Agent) forgetTurns() {
	a.followed.Forget()
	a.recalled = false
}

// restored describes what a restore did. inEffect are the entries that were in effect.
func (a *Agent) restored(ctx context.Context, out checkpoint.Outcome, inEffect []HistoryEntry) Restored {
	done := Restored{To: checkpointOf(out.To), From: checkpointOf(out.From), Undo: out.Undo, NoFiles: out.NoFiles}
	done.Jobs = len(runningJobs(a.latestJobs(ctx)))
	done.Repositories = out.Repositories
	done.HeadMoved = out.Now.Head != "" && done.To.Commit != "" && out.Now.Head != done.To.Commit
	for _, k := range out.Kept {
		done.Kept = append(done.Kept, KeptFile{Path: k.Name, Why: k.Why, Aside: k.At})
	}
	before, after := saidIn(inEffect), a.history.said()
	done.Earlier = conversationsIn(inEffect) > conversationsIn(a.history.current())
	same := 0
	for same < min(len(before), len(after)) && before[same].Seq == after[same].Seq {
		same++
	}
	done.Gone, done.Back = len(before)-same, len(after)-same
	for _, e := range before[same:] {
		if e.Message.Role == RoleUser && isOfUser(e.Message, e.Source) {
			msg := e.Message.clone()
			done.Message = &msg
			break
		}
	}
	if out.NoFiles == "" && !out.Now.Tree.IsZero() {
		var err error
		done.Changed, done.MoreChanged, err = a.Differences(ctx, out.From.N, out.Now.N)
		if err != nil {
			a.log.Warn("what a restore changed is not known", "error", err)
		}
		a.changed.restored(done.Changed)
		for _, c := range done.Changed {
			if !c.Created && slices.Contains(out.Unsure, c.Path) {
				done.Unsure = append(done.Unsure, c.Path)
			}
		}
	}
	return done
}

// restored notes changes of files that the agent's tools have changed before.
func (l *changeLog) restored(changes []FileChange) {
	for _, c := range changes {
		l.mu.Lock()
		known := l.lastOf(c.Path) >= 0
		l.mu.Unlock()
		if known {
			l.note(c)
		}
	}
}

// finishRestore makes the rest of a restore that was interrupted, by the death of the
// process say.
func (a *Agent) finishRestore(ctx context.Context) {
	before := a.history.current()
	out, err := a.checkpoints.book.Recover(ctx, a.restorableFiles(), conversationOf{a})
	if err != nil {
		a.checkpoints.warn("a restore was interrupted, and could not be finished: " + err.Error())
	}
	if err != nil || out == nil {
		return
	}
	a.forgetTurns()
	done := a.restored(ctx, *out, before)
	a.checkpoints.tell(Event{Type: EventRestored, Restored: &done, Text: "an interrupted restore was finished: " + done.String()})
}
