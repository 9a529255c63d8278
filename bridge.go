package pygent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/sessiondir"
)

// checkpointKeeper keeps the checkpoints of an agent: package checkpoint has the only one.
// All that is before List is called by who makes or closes the agent, or has the slot.
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
	Find(id int64) (mark chat.Rewind, hasFiles bool, err error)
	Export(ctx context.Context, id int64, to Runtime) error
}

// noCheckpoints is what keeps those of an agent without.
type noCheckpoints struct{ agent *Agent }

// errNotKept says how checkpoints would be kept.
var errNotKept = fmt.Errorf("%w: see checkpoint.Keep", ErrNoCheckpoints)

func (noCheckpoints) Open(context.Context) (bool, error) { return false, nil }

// Fill tells that the files of a session went with its temporary workspace.
func (n noCheckpoints) Fill(context.Context) error {
	a := n.agent
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours && rt.info.Temporary && !a.opts.lent && a.session.WasTemporary("") {
		a.startup.add("the session's temporary workspace is gone, and no checkpoint has its files")
	}
	return nil
}

func (noCheckpoints) Ready()                                          {}
func (noCheckpoints) Start(context.Context, bridge.Start) bridge.Turn { return nil }
func (noCheckpoints) Await(context.Context) error                     { return nil }
func (noCheckpoints) WorksAway(context.Context)                       {}
func (noCheckpoints) Closing()                                        {}
func (noCheckpoints) Close(bool) error                                { return nil }
func (noCheckpoints) List() []Checkpoint                              { return nil }
func (noCheckpoints) Before(int) (Checkpoint, error)                  { return Checkpoint{}, errNotKept }
func (noCheckpoints) Differences(context.Context, int64, int64) ([]FileChange, bool, error) {
	return nil, false, errNotKept
}
func (noCheckpoints) Undo(context.Context, int) (Restored, error) {
	return Restored{}, fmt.Errorf("undo: %w", errNotKept)
}
func (noCheckpoints) Redo(context.Context) (Restored, error) {
	return Restored{}, fmt.Errorf("redo: %w", errNotKept)
}
func (noCheckpoints) Restore(_ context.Context, id int64) (Restored, error) {
	return Restored{}, fmt.Errorf("restore checkpoint %d: %w", id, errNotKept)
}
func (noCheckpoints) Find(int64) (chat.Rewind, bool, error)        { return chat.Rewind{}, false, errNotKept }
func (noCheckpoints) Export(context.Context, int64, Runtime) error { return errNotKept }

// sessionKeeper keeps the session of an agent: package sessions has the only one. All is
// called by who makes or closes the agent, or has the slot.
type sessionKeeper interface {
	// Opened is called once the history is open, and Failed, which closes the session, if
	// it cannot be.
	Opened()
	Failed(err error) error
	// KilledIn is the temporary workspace in which the last process was killed, and
	// WasTemporary says whether the workspace was one. dir is where it was; empty if that
	// is not known.
	KilledIn() string
	WasTemporary(dir string) bool

	Begin(msg string) // a run
	GoOn()            // before a step
	Update()          // something has changed

	Ending()      // the history is still open
	Close() error // once it is not
}

// sessionOption says where the session is kept, beside the history's file; nowhere if dir is
// empty.
type sessionOption struct {
	dir  string
	open func(inside any) (keeper any, err error)
}

// noSession is that of an agent whose session is not kept.
type noSession struct{}

func (noSession) Opened()                  {}
func (noSession) Failed(err error) error   { return err }
func (noSession) KilledIn() string         { return "" }
func (noSession) WasTemporary(string) bool { return false }
func (noSession) Begin(string)             {}
func (noSession) GoOn()                    {}
func (noSession) Update()                  {}
func (noSession) Ending()                  {}
func (noSession) Close() error             { return nil }

func init() {
	bridge.Keep = func(agent, keeper any) any {
		a := agent.(*Agent)
		a.keeper = keeper.(checkpointKeeper)
		return insideAgent{a}
	}
	bridge.Inside = func(agent any) (inside, session any) {
		a := agent.(*Agent)
		return insideAgent{a}, a.session
	}
	bridge.GoOnFrom = func(dir string, setup, history any) any {
		return fromConfig(option((&savedAgent{dir, setup.(Setup), history.(*History)}).continueIn))
	}
	bridge.WithProject = func(change func(*bridge.Project), others ...any) any {
		return option(func(o *options) {
			change(&o.project)
			for _, other := range others {
				other.(Option).setAgent(o)
			}
		})
	}
	bridge.WithSession = func(dir string, open func(any) (any, error)) any {
		return option(func(o *options) {
			o.give("sessions.Keep", "sessions.Keep", dir != "")
			o.session = sessionOption{dir, open}
		})
	}
}

// openConversation opens the history, and the session that it belongs to, if any.
func (a *Agent) openConversation(o *options) (err error) {
	if a.session = (noSession{}); o.session.dir != "" {
		keeper, err := o.session.open(insideAgent{a})
		if err != nil {
			return err
		}
		a.session = keeper.(sessionKeeper)
	}
	if a.history, err = o.openHistory(); err != nil {
		return a.session.Failed(err)
	}
	if o.session.dir != "" {
		a.history.BeLenient()
	}
	a.session.Opened()
	return nil
}

// insideAgent is an agent as packages of this module see it.
type insideAgent struct{ agent *Agent }

// Agent returns the agent itself.
func (i insideAgent) Agent() *Agent { return i.agent }

// IsClosed reports whether the agent is closed, or about to be.
func (i insideAgent) IsClosed() bool { return i.agent.isClosed() }

// ModelName is the name of the model that is asked for, empty if that is not known.
func (i insideAgent) ModelName() string { return i.agent.model.current().asked() }

// Emit tells an event.
func (i insideAgent) Emit(e Event) { i.agent.emit(e) }

// Notice tells of something while the agent is made.
func (i insideAgent) Notice(text string) { i.agent.startup.add(text) }

// Place returns the mark that leads to where the conversation is now.
func (i insideAgent) Place() chat.Rewind { return i.agent.history.Place() }

// CanRewind reports whether a mark leads somewhere.
func (i insideAgent) CanRewind(mark chat.Rewind) bool { return i.agent.history.CanRewind(mark) }

// Rewind records that the conversation goes on from a mark.
func (i insideAgent) Rewind(ctx context.Context, mark chat.Rewind) error {
	return i.agent.history.Rewind(ctx, mark)
}

// LastRewind returns the last mark of the history; nil for none.
func (i insideAgent) LastRewind() *chat.Rewind {
	return i.agent.history.LastRewind()
}

// Messages is how many the history has, how many the conversation consists of, and how many
// of those there are since it began anew, all without the system message.
func (i insideAgent) Messages() (all, current, anew int) {
	h := i.agent.history
	return h.MessageCount(), h.ActiveCount(), h.CountSinceNew()
}

// FirstOfUser is what the user said first.
func (i insideAgent) FirstOfUser() string {
	for _, e := range i.agent.history.AllEntries() {
		if e.IsOfUser() && strings.TrimSpace(e.Message.Text()) != "" {
			return e.Message.Text()
		}
	}
	return ""
}

// Said is what the user and the model have said, for people.
func (i insideAgent) Said() (said []sessiondir.Said) {
	for _, e := range i.agent.history.ActiveMessageEntries() {
		byUser := e.IsOfUser()
		if byUser || e.Message.Role == chat.RoleAssistant {
			said = append(said, sessiondir.Said{ByUser: byUser, Text: e.Message.Text()})
		}
	}
	return said
}

// Repair has the next run warn of what was lost of the conversation's surroundings.
func (i insideAgent) Repair(note string) {
	i.agent.history.AddRepair(note)
}

// Fork is [Agent.Fork], whose errors say no more than what failed.
func (i insideAgent) Fork(ctx context.Context, id int64, opts ...Option) (*Agent, error) {
	return i.agent.fork(ctx, id, opts)
}

// MayWrite refuses a directory that commands can write to: it would be in the next snapshot,
// and could be changed.
func (i insideAgent) MayWrite(ctx context.Context, dir string) error {
	dirs := lastingDirs(i.agent.runtime)
	if host := i.agent.describe(ctx).HostDir; host != "" {
		dirs = append(dirs, host)
	}
	in, _, err := pathname.Inside(dirs, dir)
	if err == nil && in != "" {
		err = fmt.Errorf("it is in %s, where the agent's commands can change it; choose a directory outside", in)
	}
	return err
}

// Entries are those of the conversation, to be read only.
func (i insideAgent) Entries() []chat.HistoryEntry { return i.agent.history.ActiveEntries() }

// Restoring has f lead the conversation back, as a run of its own, and tells what it did.
func (i insideAgent) Restoring(ctx context.Context, f func(context.Context) (Restored, error)) (done Restored, err error) {
	a := i.agent
	err = a.exclusive(ctx, func(r *run) error {
		if done, err = f(r.ctx); err != nil {
			return err
		}
		use := ContextUse{Estimated: true, Window: a.window.size("")}
		if specs, err := a.refreshSystem(r.ctx); err == nil {
			use.Used = a.window.gauge().Tokens(a.window.weight(specs))
		}
		r.emit(Event{Type: EventRestored, Restored: &done, Text: done.String(), Context: use, Messages: a.history.MessageCount()})
		return nil
	})
	return done, err
}

// Complete reads what the history does not have yet, and answers calls that were
// interrupted.
func (i insideAgent) Complete(ctx context.Context) error {
	if err := i.agent.history.CatchUp(ctx); err != nil {
		return err
	}
	return i.agent.history.AnswerOpenCalls(ctx)
}

// Rewound forgets what is known from turns that may not be in effect any more, which the
// next run learns again, and describes what became of the conversation. before are the
// entries that it had.
func (i insideAgent) Rewound(ctx context.Context, done *Restored, before []chat.HistoryEntry) {
	a := i.agent
	a.jobs.known.Forget()
	a.jobs.recalled = false
	jobs, err := a.Jobs(ctx)
	if err != nil {
		a.log.Debug("background jobs are not known", "error", err)
		jobs = a.State().Jobs
	}
	done.Jobs = len(runningJobs(jobs))
	was := slices.DeleteFunc(slices.Clone(before), func(e chat.HistoryEntry) bool { return e.IsMark() })
	is := a.history.ActiveMessageEntries()
	done.Earlier = conversationsIn(before) > conversationsIn(a.history.ActiveEntries())
	same := 0
	for same < min(len(was), len(is)) && was[same].Seq == is[same].Seq {
		same++
	}
	done.Gone, done.Back = len(was)-same, len(is)-same
	for _, e := range was[same:] {
		if e.IsOfUser() {
			msg := e.Message.Clone()
			done.Message = &msg
			break
		}
	}
}

// NoteChanges notes changes of files that the agent's tools have changed before.
func (i insideAgent) NoteChanges(changes []FileChange) {
	l := &i.agent.changed
	for _, c := range changes {
		l.mu.Lock()
		known := l.lastOf(c.Path) >= 0
		l.mu.Unlock()
		if known {
			l.add(c)
		}
	}
}

// conversationsIn is how often a new conversation began in some entries.
func conversationsIn(all []chat.HistoryEntry) (n int) {
	for _, e := range all {
		if e.Compaction != nil && e.Compaction.Anew {
			n++
		}
	}
	return n
}

// Change describes how a file's content changed.
func (i insideAgent) Change(name string, before []byte, created bool, after string) FileChange {
	return formerText{data: before, missing: created}.becomes(name, after)
}

// Workspace returns the directory of this machine that the workspace is, or comes back to
// from a volume, and describes the runtime with HostDir as it is now. dir is "" for a runtime
// that is not of this package.
func (i insideAgent) Workspace() (dir string, info RuntimeInfo) {
	rt, ours := RuntimeAs[*workspaceRuntime](i.agent.runtime)
	if !ours {
		return "", info
	}
	info = rt.info
	info.HostDir = rt.HostDir()
	return rt.Dir(), info
}

// IsLent reports whether the runtime outlives the agent.
func (i insideAgent) IsLent() bool { return i.agent.opts.lent }

// NextDir returns the directory of this machine that the agent is going to work in; "" for
// a temporary one, and if it is not known.
func (i insideAgent) NextDir() string {
	opts := &i.agent.opts
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
func (i insideAgent) BeginsEmpty() bool {
	opts := &i.agent.opts
	o, err := newRuntimeOptions(opts.runtimeOpts)
	return opts.runtime == nil && opts.saved.snapshot == nil && err == nil && o.workspace == ""
}

// Session returns the directory of the session; "" for none.
func (i insideAgent) Session() string { return i.agent.opts.session.dir }

// IsKept reports whether the conversation is found again by the next agent.
func (i insideAgent) IsKept() bool { return i.agent.opts.historyFile != "" }

// KilledIn returns the temporary workspace in which the last process of the session was
// killed, as far as that is known.
func (i insideAgent) KilledIn() string { return i.agent.session.KilledIn() }

// WasTemporary reports whether the workspace of the session was temporary. dir is where
// that was; empty if that is not known.
func (i insideAgent) WasTemporary(dir string) bool { return i.agent.session.WasTemporary(dir) }

// JobsRun reports whether commands run in the background, or perhaps do.
func (i insideAgent) JobsRun(ctx context.Context) bool {
	if i.agent.jobs.silent.Load() {
		return true
	}
	jobs, err := i.agent.jobs.list(ctx)
	return err != nil || len(runningJobs(jobs)) > 0
}

// startTurn makes the checkpoint before a turn, while the model is asked.
func (r *run) startTurn(msg string) {
	words := typed(chat.UserMessage(msg, r.opts.parts...))
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

// Resting calls f while no run goes on.
func (i insideAgent) Resting(ctx context.Context, f func(context.Context) error) error {
	ctx, end, err := i.agent.slot.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return f(ctx)
}

// Files are those of the runtime. list is nil where they cannot be listed.
func (i insideAgent) Files() (from export.Source, list func(ctx context.Context, depth, most int) ([]FileInfo, bool, error)) {
	files := runtimeFiles{i.agent.runtime, &i.agent.callbacks}
	from = export.Source{Whole: true, Target: files.linkTarget(), Export: files.export}
	lister, ok := RuntimeAs[FileLister](files.runtime)
	if !ok {
		return from, nil
	}
	from.List = func(ctx context.Context, dir string, most int) ([]export.File, bool, error) {
		found, more, err := files.list(ctx, lister, dir, 1, most)
		return exportFiles(found), more, err
	}
	return from, func(ctx context.Context, depth, most int) ([]FileInfo, bool, error) {
		return files.list(ctx, lister, ".", depth, most)
	}
}

// Project says what of the workspace is read.
func (i insideAgent) Project() bridge.Project { return i.agent.opts.project }

// Era rises where a model may not know any more what it was told: at the start of a run, and
// by a compaction.
func (i insideAgent) Era() int64 { return i.agent.era.Load() }

// Offer puts a tool in the place of the one of its name and description, if the agent still has
// that one, and tells nobody.
func (i insideAgent) Offer(t Tool) error { return i.agent.tools.exchange(t) }

// Once returns a function that calls code which may never return, for as long as its context
// lasts, and which refuses while an earlier call has not returned.
func (i insideAgent) Once(what string) func(ctx context.Context, f func() error) error {
	var late lateCall
	return func(ctx context.Context, f func() error) error {
		_, err := outliveOnce(ctx, i.agent, &late, what, func() (struct{}, error) { return struct{}{}, f() })
		return err
	}
}

// CopyHistory writes the conversation, with what is known of its messages, to a new file,
// and returns it in memory.
func (i insideAgent) CopyHistory(path string) (*History, error) {
	return i.agent.history.CopyTo(path)
}

// Log is where the program logs, "" if that is not known, and from where on that is about
// the agent. In the writable directories commands can put another file in its place.
func (i insideAgent) Log() (file string, from int64, writable []string) {
	return i.agent.opts.saved.logFile, i.agent.logFrom, lastingDirs(i.agent.runtime)
}
