package pygent

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

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
	if a.checkpoints.book == nil {
		return nil, a.checkpoints.missing()
	}
	entry, err := a.checkpoints.book.Find(id)
	if err != nil {
		return nil, err
	}
	mark, err := markOf(entry)
	if err != nil {
		return nil, err
	}
	said, err := a.history.until(mark)
	if err != nil {
		return nil, err
	}
	o, err := a.forkOptions(opts)
	if err != nil {
		return nil, err
	}
	fork, err := newAgent(ctx, o)
	if err != nil {
		return nil, err
	}
	files := fork.files()
	switch {
	case entry.Tree.IsZero():
	case files == nil:
		err = errors.New("the files cannot be put into the workspace of a runtime that is not of this package")
	default:
		err = a.checkpoints.book.Export(ctx, id, files)
	}
	if err == nil { // last, so that a session without its files is none
		err = fork.beginWith(said)
	}
	if err != nil {
		return nil, errors.Join(err, fork.Close())
	}
	return fork, nil
}

// until returns the entries in effect at a mark, with their texts.
func (h *History) until(mark Rewind) ([]HistoryEntry, error) {
	all, err := h.whole()
	if err != nil {
		return nil, err
	}
	end, found := mark.end(all)
	if !found {
		return nil, fmt.Errorf("its messages are not in the history: %w", ErrHistoryChanged)
	}
	current := slices.Clone(inEffect(all[:end]))
	for i := range current {
		current[i] = current[i].clone()
		current[i].Seq = 0
	}
	return slices.DeleteFunc(current, func(e HistoryEntry) bool { return e.isMark() && e.Compaction == nil }), nil
}

// beginWith gives the agent its conversation.
func (a *Agent) beginWith(entries []HistoryEntry) error {
	if a.history.Len() > 0 {
		return errors.New("its history is not empty")
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := a.history.append(context.Background(), entries, false)
	return err
}

// forkOptions are the options of a fork.
func (a *Agent) forkOptions(opts []Option) (options, error) {
	o := a.opts
	o.approve, o.ask = a.decidersOfFork()
	o.confirmBash = a.approver.Confirm()
	setAll(&o, []Option{a.inherited()}, Option.setAgent)
	o.extensions = a.opts.extensions
	o.given, o.warnings = nil, nil
	o.spends, o.askAbove, o.parentsWindow = nil, nil, false
	o.tools, o.disabled = nil, nil // the registry has those that are on
	o.history, o.historyFile, o.sessionDir, o.id = nil, "", "", ""
	o.resume, o.first = false, Message{}
	o.run = slices.Clip(o.run)
	custom := o.runtime != nil
	o.runtime, o.lent, o.runtimeOpts = nil, false, nil
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours {
		kind, private := rt.sibling()
		o.runtimeOpts = kind.options(private)
		custom = false
	}
	setAll(&o, opts, Option.setAgent)
	if custom && o.runtime == nil {
		return o, errors.New("the agent works in a runtime of the program's own: give the fork one by WithRuntime")
	}
	return o, nil
}

// decidersOfFork returns who decides and answers in a fork: the program, or the people
// at the faces of this agent as long as they are there.
func (a *Agent) decidersOfFork() (ApprovalFunc, AskFunc) {
	now := a.approver.User()
	program, _ := a.approver.BeforeFace()
	if program.Approve == nil && now.Approve != nil {
		program.Approve = func(ctx context.Context, r ApprovalRequest) (Decision, error) {
			if u := a.approver.User(); u.Approve != nil {
				return u.Approve(ctx, r)
			}
			return Decision{By: byNobody}, errSessionOver
		}
	}
	if program.Answer == nil && now.Answer != nil {
		program.Answer = func(ctx context.Context, r AskRequest) (Answer, error) {
			if u := a.approver.User(); u.Answer != nil {
				return u.Answer(ctx, r)
			}
			return Answer{}, ErrNobodyToAsk
		}
	}
	return program.Approve, program.Answer
}
