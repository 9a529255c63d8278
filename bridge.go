package pygent

import (
	"context"
	"slices"

	"github.com/x/pygent/internal/bridge"
)

// checkpointKeeper keeps the checkpoints of an agent: package checkpoint has the only one.
// All that is before List is called by who makes or closes the agent, or holds busy.
type checkpointKeeper interface {
	// Open is called before there is a runtime. putsBack says that the files of the session
	// go into the new workspace, by Fill.
	Open(ctx context.Context) (putsBack bool, err error)
	Fill(ctx context.Context) error
	Ready() // the runtime has its files

	// Start is called before the message of a turn is in the history. The turn may be nil.
	Start(ctx context.Context, s bridge.Start) bridge.Turn
	// Await waits for a checkpoint that is made, and tells what there is to tell.
	Await(ctx context.Context) error
	WorksAway(ctx context.Context) // a call has run, perhaps in a volume

	Closing() // the runtime is still there
	// Close closes them. cleaned says that the runtime is cleaned up.
	Close(cleaned bool) error

	List() []Checkpoint
	Before(turns int) (Checkpoint, error)
	Differences(ctx context.Context, from, to int64) (changes []FileChange, more bool, err error)
	Undo(ctx context.Context, turns int) (Restored, error)
	Redo(ctx context.Context) (Restored, error)
	Restore(ctx context.Context, id int64) (Restored, error)
	// Find returns the mark that leads to a checkpoint, and whether that has files, which
	// Export puts into a runtime.
	Find(id int64) (mark Rewind, hasFiles bool, err error)
	Export(ctx context.Context, id int64, to Runtime) error
}

func init() {
	bridge.Keep = func(agent, keeper any) any {
		a := agent.(*Agent)
		a.keeper = keeper.(checkpointKeeper)
		return keptAgent{a}
	}
}

// keptAgent is an agent as what keeps its checkpoints sees it.
type keptAgent struct{ agent *Agent }

// Emit tells an event.
func (k keptAgent) Emit(e Event) { k.agent.emit(e) }

// Notice tells of something while the agent is made.
func (k keptAgent) Notice(text string) { k.agent.tellAtFirst(text) }

// Place returns the mark that leads to where the conversation is now.
func (k keptAgent) Place() Rewind { return k.agent.history.place() }

// CanRewind reports whether a mark leads somewhere.
func (k keptAgent) CanRewind(mark Rewind) bool { return k.agent.history.canRewind(mark) }

// Rewind records that the conversation goes on from a mark.
func (k keptAgent) Rewind(ctx context.Context, mark Rewind) error {
	return k.agent.history.rewind(ctx, mark)
}

// LastRewind returns the last mark of the history; nil for none.
func (k keptAgent) LastRewind() *Rewind {
	all := k.agent.history.shared()
	if at := lastRewind(all); at >= 0 {
		return all[at].Rewind
	}
	return nil
}

// Entries are those of the conversation, to be read only.
func (k keptAgent) Entries() []HistoryEntry { return k.agent.history.current() }

// Restoring has f lead the conversation back, as a run of its own, and tells what it did.
func (k keptAgent) Restoring(ctx context.Context, f func(context.Context) (Restored, error)) (done Restored, err error) {
	a := k.agent
	err = a.aside(ctx, func(r *run) error {
		if done, err = f(r.ctx); err != nil {
			return err
		}
		use := ContextUse{Estimated: true, Window: a.window("")}
		if specs, err := a.refreshSystem(r.ctx); err == nil {
			use.Used = a.memoryOf(a.currentModel()).gauge.Tokens(a.requestWeight(specs))
		}
		r.emit(Event{Type: EventRestored, Restored: &done, Text: done.String(), Context: use, Messages: a.history.spoken()})
		return nil
	})
	return done, err
}

// Complete reads what the history does not have yet, and answers calls that were
// interrupted.
func (k keptAgent) Complete(ctx context.Context) error {
	if err := k.agent.history.catchUp(ctx); err != nil {
		return err
	}
	return k.agent.history.answerOpenCalls(ctx)
}

// Rewound forgets what is known from turns that may not be in effect any more, which the
// next run learns again, and describes what became of the conversation. before are the
// entries that it had.
func (k keptAgent) Rewound(ctx context.Context, done *Restored, before []HistoryEntry) {
	a := k.agent
	a.followed.Forget()
	a.recalled = false
	done.Jobs = len(runningJobs(a.latestJobs(ctx)))
	was, is := saidIn(before), a.history.said()
	done.Earlier = conversationsIn(before) > conversationsIn(a.history.current())
	same := 0
	for same < min(len(was), len(is)) && was[same].Seq == is[same].Seq {
		same++
	}
	done.Gone, done.Back = len(was)-same, len(is)-same
	for _, e := range was[same:] {
		if e.Message.Role == RoleUser && isOfUser(e.Message, e.Source) {
			msg := e.Message.clone()
			done.Message = &msg
			break
		}
	}
}

// NoteChanges notes changes of files that the agent's tools have changed before.
func (k keptAgent) NoteChanges(changes []FileChange) {
	l := &k.agent.changed
	for _, c := range changes {
		l.mu.Lock()
		known := l.lastOf(c.Path) >= 0
		l.mu.Unlock()
		if known {
			l.note(c)
		}
	}
}

// Change describes how a file's content changed.
func (k keptAgent) Change(name string, before []byte, created bool, after string) FileChange {
	return formerText{data: before, missing: created}.becomes(name, after)
}

// Workspace describes the agent's runtime, if it is one of this package.
func (k keptAgent) Workspace() (info RuntimeInfo, known bool) {
	if rt, ours := RuntimeAs[*workspaceRuntime](k.agent.runtime); ours {
		return rt.info, true
	}
	return info, false
}

// IsLent reports whether the runtime outlives the agent.
func (k keptAgent) IsLent() bool { return k.agent.opts.lent }

// NextDir returns the directory of this machine that the agent is going to work in; "" for
// a temporary one, and if it is not known.
func (k keptAgent) NextDir() string {
	opts := &k.agent.opts
	if rt, ours := RuntimeAs[*workspaceRuntime](opts.runtime); ours {
		return rt.HostDir() // "" while it has the files in a volume
	}
	o, err := newRuntimeOptions(opts.runtimeOpts) // NewRuntime tells the error
	if opts.runtime != nil || err != nil {
		return ""
	}
	return o.workspace
}

// BeginsEmpty reports whether the agent is going to make a temporary workspace that no
// snapshot fills.
func (k keptAgent) BeginsEmpty() bool {
	opts := &k.agent.opts
	o, err := newRuntimeOptions(opts.runtimeOpts)
	return opts.runtime == nil && opts.saved.snapshot == nil && err == nil && o.workspace == ""
}

// Session returns the directory of the session; "" for none.
func (k keptAgent) Session() string { return k.agent.opts.sessionDir }

// IsKept reports whether the conversation is found again by the next agent.
func (k keptAgent) IsKept() bool { return k.agent.opts.historyFile != "" }

// KilledIn returns the temporary workspace in which the last process of the session was
// killed, as far as that is known.
func (k keptAgent) KilledIn() string { return k.agent.kept.workspaceBefore() }

// WasTemporary reports whether the workspace of the session was temporary. dir is where
// that was; empty if that is not known.
func (k keptAgent) WasTemporary(dir string) bool { return k.agent.kept.wasTemporary(dir) }

// JobsRun reports whether commands run in the background, or perhaps do.
func (k keptAgent) JobsRun(ctx context.Context) bool {
	if k.agent.jobs.silent.Load() {
		return true
	}
	jobs, err := k.agent.listJobs(ctx)
	return err != nil || len(runningJobs(jobs)) > 0
}

// closeCheckpoints closes what keeps the checkpoints. cleaned says that the runtime is
// cleaned up.
func (a *Agent) closeCheckpoints(cleaned bool) error {
	if a.keeper == nil {
		return nil
	}
	return a.keeper.Close(cleaned)
}

// fillSession puts the files of a session back that went with its temporary workspace.
func (a *Agent) fillSession(ctx context.Context) error {
	if a.keeper != nil {
		return a.keeper.Fill(ctx)
	}
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours && rt.info.Temporary && !a.opts.lent && a.kept.wasTemporary("") {
		a.tellAtFirst("the workspace of the session was temporary, and its files are gone: no checkpoint has them")
	}
	return nil
}

// startTurn makes the checkpoint before a turn, while the model is asked.
func (r *run) startTurn(msg string) {
	if r.agent.keeper == nil {
		return
	}
	words := typed(UserMessage(msg, r.opts.parts...))
	said := r.agent.unheard.list()
	if words == "" && len(said) > 0 {
		words = typed(said[0].Message)
	}
	isResumed := r.opts.resume || words == "" && len(r.opts.parts) == 0 && len(said) == 0
	r.turn = r.agent.keeper.Start(r.ctx, bridge.Start{Resumes: isResumed, Words: oneLine(words, maxTurnWords)})
}

// typed is the text of a message without that of the files that are quoted in it.
func typed(m Message) string {
	m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.FileName != "" })
	return m.Text()
}

// awaitCheckpoint waits for a checkpoint that is made.
func (r *run) awaitCheckpoint(ctx context.Context) error {
	if r.agent.keeper == nil {
		return nil
	}
	return r.agent.keeper.Await(ctx)
}
