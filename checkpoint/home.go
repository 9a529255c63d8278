package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/sandbox"
)

// Files in a volume come back to the workspace's directory when the agent is closed.
// If its process is killed instead, or cannot reach the engine, the directory is as it
// was before the volume, and the conversation tells of work that is not in it. The
// next agent then puts the files of the last checkpoint into the directory, and takes
// the conversation back to it if it tells more.
//
// The files of a session in a temporary workspace go with it at the end. They are put
// back, as the last checkpoint has them, when the session goes on in another one.
//
// What the session's last process left in its workspace because it was killed is
// made a checkpoint first, so nothing of it is lost. If somebody has removed that
// workspace meanwhile, the conversation goes back to the last checkpoint too: it
// must not tell of work that is not in the files.

var errOtherRuntime = errors.New("the files cannot be put into the workspace of a runtime that is not of package pygent")

// onDay is how people are told of a moment.
const onDay = "2006-01-02 at 15:04:05"

// homecoming is what the agent tells of files that were in a volume, once it can.
type homecoming struct {
	checkpoint.Homecoming
	before []chat.HistoryEntry // the messages that were in effect
}

// bringHome puts files back that were in a volume when the last process ended. Its
// error ends New: the agent would work on files that are not those of its
// conversation.
func (k *keeper) bringHome(ctx context.Context) error {
	away, is := k.book.Away()
	if !is {
		return nil
	}
	files := k.filesBefore(away)
	if files == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	home := homecoming{before: k.agent.Entries()}
	var err error
	if home.Homecoming, err = k.book.BringHome(ctx, files, conversation{k.agent}); err != nil {
		return fmt.Errorf("bring back the files of checkpoint %d to %s, which were in the engine's %s: %w; in another workspace the conversation continues without them",
			away.N, away.Dir, oneLine(away.On), err)
	}
	k.home = &home
	return nil
}

// filesBefore returns the directory that the agent is going to work in, if a
// checkpoint is of it. A temporary workspace is another matter: see Fill.
func (k *keeper) filesBefore(away checkpoint.Entry) checkpoint.Workspace {
	dir := k.agent.NextDir()
	if dir == "" || k.agent.WasTemporary("") {
		return nil
	}
	if pathname.Real(dir) != pathname.Real(away.Dir) {
		k.warn(fmt.Sprintf("the last files of this conversation were in the engine's %s when its process ended; checkpoint %d has them, and they are restored if you continue in %s instead", oneLine(away.On), away.N, oneLine(away.Dir)))
		return nil
	}
	return checkpoint.Local(away.Dir)
}

// WorksAway notes that commands change files in a volume now, before the conversation
// tells of it.
func (k *keeper) WorksAway(ctx context.Context) {
	if dir, info := k.agent.Workspace(); k.book == nil || dir == "" || info.HostDir != "" {
		return
	}
	if err := k.book.WentAway(context.WithoutCancel(ctx), k.keptFiles()); err != nil {
		k.warn("that the files are in a volume could not be kept: " + err.Error())
	}
}

// tellHome tells what bringHome did.
func (k *keeper) tellHome() {
	home := k.home
	if home == nil {
		return
	}
	k.home = nil
	text := fmt.Sprintf("when the last process ended, the files were in the engine's %s; they are back in %s, as they were on %s",
		oneLine(home.Away.On), oneLine(home.Away.Dir), home.Away.Time.Local().Format(onDay))
	done := pygent.Restored{To: described(home.Away)}
	if home.Back != nil {
		done = k.restored(context.Background(), *home.Back, home.before)
		done.Changed, done.MoreChanged = nil, false // what the user changed, and not this
		text += ", before the turn that was interrupted: what it did is in the volume alone"
	}
	for _, kept := range home.Kept {
		at := slices.IndexFunc(done.Kept, func(other pygent.KeptFile) bool { return other.Path == kept.Name })
		if at < 0 {
			done.Kept = append(done.Kept, pygent.KeptFile{})
			at = len(done.Kept) - 1
		}
		done.Kept[at] = keptFile(kept)
	}
	text = strings.Join(append([]string{text + "; pygent prune says how it is copied from there"}, done.Notes()...), "; ")
	if home.Back == nil {
		k.agent.Notice(text)
		return
	}
	k.tell(pygent.Event{Type: pygent.EventRestored, Restored: &done, Text: text})
}

func keptFile(kept checkpoint.Kept) pygent.KeptFile {
	return pygent.KeptFile{Path: kept.Name, Why: kept.Why, Aside: kept.At}
}

// leftDir returns the temporary workspace in which the session's last process was
// killed, or "" if there is none. It must be called before a runtime is made, which
// removes such directories.
func (k *keeper) leftDir() string {
	dir := k.agent.KilledIn()
	left := func(l sandbox.Leftover) bool { return l.Sure && l.Name == filepath.Dir(dir) }
	if dir == "" || !slices.ContainsFunc(sandbox.DirectoriesLeft(owner.Here()), left) {
		return ""
	}
	return dir
}

// saveLeft makes a checkpoint of what a killed process left in its temporary
// workspace.
func (k *keeper) saveLeft() {
	dir := k.leftDir()
	if dir == "" {
		return
	}
	if last, found := k.book.Last(); found && last.On != "" {
		return // the files were in a volume, and only the checkpoint has them
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstWithin)
	defer cancel()
	files := checkpoint.Local(dir)
	_, err := k.book.Recover(ctx, files, conversation{k.agent})
	if start, missing := k.missingStart(); err == nil && missing {
		_, err = k.book.Take(ctx, files, start)
	}
	if err == nil {
		err = k.book.Settle(ctx, files, k.atPlace(checkpoint.End, ""))
	}
	if err != nil {
		k.warn(fmt.Sprintf("what the session left in %s when it was killed could not be saved: %v", dir, err))
	}
}

// settleTemporary makes a checkpoint of a temporary workspace before it goes, so that
// the session goes on with what was changed after the last turn, too.
func (k *keeper) settleTemporary() {
	if k.agent.Session() == "" || !k.ownTemporary() || k.agent.Place().Messages == 0 {
		return
	}
	k.working.Wait() // the checkpoint of the last turn says whether there are files
	files := k.keptFiles()
	if files == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWithin)
	defer cancel()
	if err := k.book.Settle(ctx, files, k.atPlace(checkpoint.End, "")); err != nil {
		k.agent.Emit(pygent.Event{Type: pygent.EventWarning, Text: "the session continues without the changes to files since the last turn: " + err.Error()})
	}
}

// ownTemporary reports whether the workspace is a temporary one that goes with the
// agent.
func (k *keeper) ownTemporary() bool {
	dir, info := k.agent.Workspace()
	return dir != "" && info.Temporary && !k.agent.IsLent()
}

// Fill puts the files of the session into its new temporary workspace.
func (k *keeper) Fill(ctx context.Context) error {
	if !k.putsBack {
		k.tellNotPutBack(ctx)
		return nil
	}
	session, files := filepath.Base(k.agent.Session()), k.files()
	last, _ := k.book.Last()
	err := errors.New("this runtime has its files elsewhere")
	if files != nil {
		err = k.book.Move(ctx, files)
	}
	if err != nil {
		return fmt.Errorf("put back the files of session %s, which were in a temporary workspace: %w; in a workspace of your choice it continues without them", session, err)
	}
	text := "the session's temporary workspace was restored as of " + last.Time.Local().Format(onDay)
	if k.book.Pending() || k.agent.Place().Messages == last.Messages {
		if k.book.HasFiles(ctx, last) {
			k.agent.Notice(text)
		}
		return nil
	}
	before := k.agent.Entries()
	out, err := k.book.Restore(ctx, files, last.N, conversation{k.agent})
	if err != nil {
		return fmt.Errorf("take session %s back to its last checkpoint: %w", session, err)
	}
	done := k.restored(ctx, out, before)
	k.agent.Notice(text + ", before the interrupted turn: its changes are lost")
	k.tell(pygent.Event{Type: pygent.EventRestored, Restored: &done, Text: "the interrupted turn is undone, because its files are lost: " + done.String()})
	return nil
}

// tellNotPutBack tells where the files of a session in a temporary workspace are, of
// which none are in the workspace now.
func (k *keeper) tellNotPutBack(ctx context.Context) {
	if !k.agent.WasTemporary("") || k.book == nil && !k.ownTemporary() {
		return
	}
	text := "the session's temporary workspace is gone, and no checkpoint has its files"
	if !k.ownTemporary() {
		last, found := k.book.Last()
		if !found || last.Tree.IsZero() || !k.book.HasFiles(ctx, last) {
			return
		}
		text = fmt.Sprintf("the session's temporary workspace is not restored into this one; checkpoint %d has its files: fork a session from it (Fork, /fork)", last.N)
	}
	k.agent.Notice(text)
}
