package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
)

// The files of a session in a temporary workspace go with it at the end. They are put
// back, as the last checkpoint has them, when the session goes on in another one.
//
// What the session's last process left in its workspace because it was killed is
// made a checkpoint first, so nothing of it is lost. If somebody has removed that
// workspace meanwhile, the conversation goes back to the last checkpoint too: it
// must not tell of work that is not in the files.

// leftDir returns the temporary workspace in which the session's last process was
// killed, or "" if there is none. It must be called before a runtime is made, which
// removes such directories.
func (a *Agent) leftDir() string {
	dir := a.kept.workspaceBefore()
	left := func(l sandbox.Leftover) bool { return l.Sure && l.Name == filepath.Dir(dir) }
	if dir == "" || !slices.ContainsFunc(sandbox.DirectoriesLeft(owner.Here()), left) {
		return ""
	}
	return dir
}

// saveLeft makes a checkpoint of what a killed process left in its temporary
// workspace.
func (a *Agent) saveLeft() {
	book, dir := a.checkpoints.book, a.leftDir()
	if book == nil || dir == "" {
		return
	}
	if last, found := book.Last(); found && last.On != "" {
		return // the files were in a volume, and only the checkpoint has them
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstWithin)
	defer cancel()
	files := checkpoint.Local(dir)
	_, err := book.Recover(ctx, files, conversationOf{a})
	if start, missing := a.missingStart(); err == nil && missing {
		_, err = book.Take(ctx, files, start)
	}
	if err == nil {
		err = a.settleFiles(ctx, files)
	}
	if err != nil {
		a.checkpoints.warn(fmt.Sprintf("what the session left in %s when it was killed could not be kept: %v", dir, err))
	}
}

// settleFiles makes a checkpoint of how everything is, unless the last one has that.
func (a *Agent) settleFiles(ctx context.Context, files checkpoint.Workspace) error {
	e := checkpoint.Entry{Note: checkpoint.Note{Kind: checkpoint.End}}
	e.Place, e.Messages = conversationOf{a}.Place()
	return a.checkpoints.book.Settle(ctx, files, e)
}

// settleTemporary makes a checkpoint of a temporary workspace before it goes, so that
// the session goes on with what was changed after the last turn, too.
func (a *Agent) settleTemporary() {
	if a.kept == nil || a.checkpoints.book == nil || !a.ownTemporary() || a.history.spoken() == 0 {
		return
	}
	a.checkpoints.working.Wait() // the checkpoint of the last turn says whether there are files
	files := a.keptFiles()
	if files == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	if err := a.settleFiles(ctx, files); err != nil {
		a.emit(Event{Type: EventWarning, Text: "the session goes on without what has changed in the files since the last turn: " + err.Error()})
	}
}

// ownTemporary reports whether the workspace is a temporary one that goes with the
// agent.
func (a *Agent) ownTemporary() bool {
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	return ours && rt.info.Temporary && !a.opts.lent
}

// putsBack reports whether the files of the session go into the workspace that the
// agent is about to make.
func (a *Agent) putsBack() bool {
	if a.kept == nil || a.checkpoints.book == nil || a.opts.runtime != nil || a.opts.saved.snapshot != nil {
		return false
	}
	o, err := newRuntimeOptions(a.opts.runtimeOpts)
	last, found := a.checkpoints.book.Last()
	return err == nil && o.workspace == "" && found && !last.Tree.IsZero() && a.kept.wasTemporary(last.Dir)
}

// withoutInitialFiles leaves out the initial files, which the checkpoint has as the
// session has left them.
func withoutInitialFiles() RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.initialFiles = nil }}
}

// refill puts the files of the session into its new temporary workspace.
func (a *Agent) refill(ctx context.Context) error {
	if !a.checkpoints.putsBack {
		a.tellNotPutBack(ctx)
		return nil
	}
	files := a.files()
	book := a.checkpoints.book
	last, _ := book.Last()
	err := errors.New("this runtime has its files elsewhere")
	if files != nil {
		err = book.Move(ctx, files)
	}
	if err != nil {
		return fmt.Errorf("put back the files of session %s, which were in a temporary workspace: %w; in a workspace of your choice it goes on without them", filepath.Base(a.opts.sessionDir), err)
	}
	text := "the workspace of the session was temporary; its files are back, as they were on " + last.Time.Local().Format("2006-01-02 at 15:04:05")
	if book.Pending() || a.history.place().Messages == last.Messages {
		if book.HasFiles(ctx, last) {
			a.tellAtFirst(text)
		}
		return nil
	}
	before := a.history.current()
	out, err := book.Restore(ctx, files, last.N, conversationOf{a})
	if err != nil {
		return fmt.Errorf("take session %s back to its last checkpoint: %w", filepath.Base(a.opts.sessionDir), err)
	}
	done := a.restored(ctx, out, before)
	a.tellAtFirst(text + ", before the turn that was interrupted: what it did to them is lost")
	a.checkpoints.tell(Event{Type: EventRestored, Restored: &done, Text: "the interrupted turn is taken back, since its files are lost: " + done.String()})
	return nil
}

// tellNotPutBack tells where the files of a session in a temporary workspace are, of
// which none are in the workspace now.
func (a *Agent) tellNotPutBack(ctx context.Context) {
	if !a.kept.wasTemporary("") {
		return
	}
	text := "the workspace of the session was temporary, and its files are gone: no checkpoint has them"
	if !a.ownTemporary() {
		if a.checkpoints.book == nil {
			return
		}
		last, found := a.checkpoints.book.Last()
		if !found || last.Tree.IsZero() || !a.checkpoints.book.HasFiles(ctx, last) {
			return
		}
		text = fmt.Sprintf("the workspace of the session was temporary, and its files are not put into this one; checkpoint %d has them, for another session that begins there (Fork, /fork)", last.N)
	}
	a.tellAtFirst(text)
}

// workspaceBefore is the directory of this machine in which a session's last process
// had its temporary workspace, if that process was killed.
func (k *keptSession) workspaceBefore() string {
	if k == nil || k.isNew || !k.info.Temporary {
		return ""
	}
	return k.info.Workspace
}

// wasTemporary reports whether the workspace of the session was temporary, as far as
// that is known. dir is where it was; empty if that is not known.
func (k *keptSession) wasTemporary(dir string) bool {
	if k == nil || k.isNew {
		return false
	}
	if k.info.Created.IsZero() && dir != "" { // session.json was damaged
		_, err := os.Lstat(dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	return k.info.Temporary
}
