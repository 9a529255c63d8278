package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/screen"
)

// Errors of checkpoints, for use with errors.Is.
var (
	// ErrNoCheckpoints is returned where checkpoints are not kept: package checkpoint
	// keeps them.
	ErrNoCheckpoints = errors.New("checkpoints are off")
	// ErrUnknownCheckpoint is returned for a checkpoint that there is not, or not any
	// more.
	ErrUnknownCheckpoint = checkpoint.ErrUnknown
	// ErrNothingToUndo is returned by [Agent.Undo] where there are fewer turns.
	ErrNothingToUndo = checkpoint.ErrNothingToUndo
	// ErrNothingToRedo is returned by [Agent.Redo] if nothing was undone since the last
	// turn.
	ErrNothingToRedo = checkpoint.ErrNothingToRedo
)

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
		what = append(what, "the conversation continues from before the new one")
	}
	if r.Back > 0 {
		what = append(what, numeral.Count(r.Back, "message")+" brought back")
	}
	switch {
	case r.NoFiles != "":
		what = append(what, "the files are unchanged: "+r.NoFiles)
	case r.MoreChanged:
		what = append(what, fmt.Sprintf("more than %d files changed", len(r.Changed)))
	default:
		what = append(what, numeral.Count(len(r.Changed), "file")+" changed")
	}
	if len(r.Kept) > 0 {
		what = append(what, numeral.Count(len(r.Kept), "file")+" left as you changed them")
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
		notes = append(notes, fmt.Sprintf("changed while a command ran, so undone too: %s (if you made one of these changes, %scheckpoint %d has it)", text, redo, r.From.ID))
	}
	if named := r.To.LeftOut[:min(notedLeft, len(r.To.LeftOut))]; len(named) > 0 && r.NoFiles == "" {
		left := strings.Join(named, ", ")
		if others := len(r.To.LeftOut) + r.To.MoreLeftOut - len(named); others > 0 {
			left += " and " + numeral.Count(others, "other")
		}
		notes = append(notes, "left alone, because checkpoints exclude it: "+left)
	}
	if files := unnamedFiles(r.Message); len(files) > 0 {
		notes = append(notes, "attach these again, they were sent with the message: "+strings.Join(files, ", "))
	}
	if r.Jobs > 0 {
		notes = append(notes, numeral.Count(r.Jobs, "command")+" still running in the background (a restore does not stop them): /jobs")
	}
	return notes
}

// unnamedFiles are the files of a message that do not come with its text when that is
// said again, because it does not mention them.
func unnamedFiles(m *Message) (files []string) {
	if m == nil {
		return nil
	}
	named := slices.Concat(pathname.Mentions(typed(*m))...)
	for _, p := range m.Parts {
		isMedia := p.ImageURL != "" || p.FileURL != "" || p.AudioURL != ""
		if !isMedia && p.FileName == "" || slices.Contains(named, p.FileName) {
			continue
		}
		files = append(files, oneLine(cmp.Or(p.FileName, "an attachment"), maxLeftOutName))
	}
	return files
}

// Bounds of what is told of a checkpoint, in bytes.
const (
	maxLeftOutName = 200
	maxTurnWords   = 100
)

// Checkpoints returns the checkpoints, the oldest first. It waits for one that is
// being made. The agent may be at work.
func (a *Agent) Checkpoints() []Checkpoint {
	return a.keeper.List()
}

// CheckpointBefore returns the checkpoint before the last turns, as many as said,
// that were not undone. The error matches [ErrNothingToUndo] where there are fewer.
func (a *Agent) CheckpointBefore(turns int) (Checkpoint, error) {
	return a.keeper.Before(turns)
}

// Differences returns how the files differ between two checkpoints; 0 for to stands
// for the files as they are now. There are at most 1,000 with 4 MiB of text, sorted
// by path; more says that there are others. What is in .git is not told.
func (a *Agent) Differences(ctx context.Context, from, to int64) (changes []FileChange, more bool, err error) {
	return a.keeper.Differences(ctx, from, to)
}

// Undo takes back the last turns, as many as said: it restores the checkpoint before
// them. See [Agent.Restore]. The error matches [ErrNothingToUndo] where there are
// fewer.
func (a *Agent) Undo(ctx context.Context, turns int) (Restored, error) {
	return a.keeper.Undo(ctx, turns)
}

// Redo takes the last undo back, and the one before it the next time. The error
// matches [ErrNothingToRedo] if there was none since the last turn.
func (a *Agent) Redo(ctx context.Context) (Restored, error) {
	return a.keeper.Redo(ctx)
}

// Restore makes the conversation and the files of the workspace what they were at a
// checkpoint. The history keeps everything: a [chat.Rewind] in it says from where the
// conversation goes on. How it was before is a checkpoint, too, so each restore can
// be taken back by another. An [EventRestored] tells.
//
// To go back, the turns of the agent are taken back, with what its commands did. A
// file that the user has changed since, also between two turns, is never
// overwritten: it stays, and the result names it. So does what others have changed in
// between the calls of a turn; see checkpoint.Keep for what changes during one. .git
// stays as it is, and the result says if its HEAD was another; but a repository that the
// agent has removed, or put another one in the place of, is put back, and one that cannot
// be is named. Files that were left out of the checkpoint
// stay, too, and commands in the background and tasks go on.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. Once it
// has begun, it does not end with ctx. If the process is killed meanwhile, the next
// agent with the same history and checkpoints makes the rest of it.
func (a *Agent) Restore(ctx context.Context, id int64) (Restored, error) {
	return a.keeper.Restore(ctx, id)
}

// Fork makes another agent that goes on from a checkpoint: with the conversation and
// the files as they were then, in a workspace of its own. So a program can try
// several ways from one state, at the same time too, and keep the best one. The
// agent may be at work meanwhile.
//
// The fork has the model, tools, persona and rules of this agent as they are now, a
// runtime of the same kind and with the same limits whose workspace is temporary,
// and a history in memory. Options change that, as they do for [New]:
// [WithWorkspace] gives it a directory, which must be empty, and [WithHistoryFile] a
// file, which must be new. Commands in the background and tasks do not come along.
// What was left out of the checkpoint is not there. The caller closes the fork.
//
// The error matches [ErrNoCheckpoints] where none are kept.
func (a *Agent) Fork(ctx context.Context, id int64, opts ...Option) (*Agent, error) {
	fork, err := a.fork(ctx, id, opts)
	if err != nil {
		return nil, fmt.Errorf("fork at checkpoint %d: %w", id, err)
	}
	return fork, nil
}

func (a *Agent) fork(ctx context.Context, id int64, opts []Option) (*Agent, error) {
	mark, hasFiles, err := a.keeper.Find(id)
	if err != nil {
		return nil, err
	}
	said, err := a.history.Until(mark)
	if err != nil {
		return nil, err
	}
	o, err := a.opts.ofFork(&a.deciders, a.inherited(), a.runtime, opts)
	if err != nil {
		return nil, err
	}
	fork, err := newAgent(ctx, o)
	if err != nil {
		return nil, err
	}
	if hasFiles {
		err = a.keeper.Export(ctx, id, fork.runtime)
	}
	if err == nil { // last, so that a session without its files is none
		if err = errForkHistory; fork.history.Len() == 0 {
			err = fork.history.AppendEntries(context.Background(), said)
		}
	}
	if err != nil {
		return nil, errors.Join(err, fork.Close())
	}
	return fork, nil
}

var errForkHistory = errors.New("its history is not empty")

// ofFork are the options of a fork of an agent that has the options o.
func (o options) ofFork(d *deciders, inherited Option, rt Runtime, opts []Option) (options, error) {
	extensions := o.extensions
	o.approve, o.ask = d.ofFork()
	o.confirmBash = d.approver.Confirm()
	setAll(&o, []Option{inherited}, Option.setAgent)
	o.extensions = extensions
	o.given, o.warnings = nil, nil
	o.spends, o.askAbove, o.parentsWindow = nil, nil, false
	o.tools, o.disabled = nil, nil // the registry has those that are on
	o.history, o.historyFile, o.session, o.id = nil, "", sessionOption{}, ""
	o.resume, o.first = false, Message{}
	o.run = slices.Clip(o.run)
	custom := o.runtime != nil
	o.runtime, o.lent, o.runtimeOpts = nil, false, nil
	if rt, ours := RuntimeAs[*workspaceRuntime](rt); ours {
		kind, private := rt.sibling()
		o.runtimeOpts = kind.options(private)
		custom = false
	}
	setAll(&o, opts, Option.setAgent)
	if custom && o.runtime == nil {
		return o, errors.New("the agent uses a runtime of your own: give the fork one with WithRuntime")
	}
	return o, nil
}

// ofFork returns who decides and answers in a fork: the program, or the people
// at the faces of this agent as long as they are there.
func (d *deciders) ofFork() (ApprovalFunc, AskFunc) {
	now := d.approver.User()
	program, _ := d.approver.BeforeFace()
	if program.Approve == nil && now.Approve != nil {
		program.Approve = func(ctx context.Context, r ApprovalRequest) (Decision, error) {
			if u := d.approver.User(); u.Approve != nil {
				return u.Approve(ctx, r)
			}
			return Decision{By: byNobody}, errSessionOver
		}
	}
	if program.Answer == nil && now.Answer != nil {
		program.Answer = func(ctx context.Context, r AskRequest) (Answer, error) {
			if u := d.approver.User(); u.Answer != nil {
				return u.Answer(ctx, r)
			}
			return Answer{}, ErrNobodyToAsk
		}
	}
	return program.Approve, program.Answer
}

// oneLine returns the beginning of a text in one line, with its control characters made
// visible.
func oneLine(text string, most int) string { return screen.Visible(cut.Line(text, most)) }
