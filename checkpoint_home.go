package pygent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/pathname"
)

// Files in a volume come back to the workspace's directory when the agent is closed.
// If its process is killed instead, or cannot reach the engine, the directory is as it
// was before the volume, and the conversation tells of work that is not in it. The
// next agent then puts the files of the last checkpoint into the directory, and takes
// the conversation back to it if it tells more.

// homecoming is what the agent tells of that, once it can.
type homecoming struct {
	checkpoint.Homecoming
	before []HistoryEntry // the messages that were in effect
}

// bringHome puts files back that were in a volume when the last process ended. Its
// error ends New: the agent would work on files that are not those of its
// conversation.
func (a *Agent) bringHome(ctx context.Context) error {
	if a.checkpoints.book == nil {
		return nil
	}
	away, is := a.checkpoints.book.Away()
	if !is {
		return nil
	}
	files, err := a.filesBefore(away)
	if err != nil || files == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	home := homecoming{before: a.history.current()}
	if home.Homecoming, err = a.checkpoints.book.BringHome(ctx, files, conversationOf{a}); err != nil {
		return fmt.Errorf("bring back the files of checkpoint %d to %s, which were in the engine's %s: %w; in another workspace the conversation goes on without them",
			away.N, away.Dir, oneLine(away.On, maxLeftOutName), err)
	}
	a.checkpoints.home = &home
	return nil
}

// filesBefore returns the directory that the agent is going to work in, if a
// checkpoint is of it. A temporary workspace is another matter: see refill.
func (a *Agent) filesBefore(away checkpoint.Entry) (checkpoint.Workspace, error) {
	dir := ""
	if rt, ours := RuntimeAs[*workspaceRuntime](a.opts.runtime); ours {
		dir = rt.HostDir() // "" while it has the files in a volume
	} else if a.opts.runtime == nil {
		o, err := newRuntimeOptions(a.opts.runtimeOpts)
		if err != nil || o.workspace == "" {
			return nil, nil // NewRuntime tells the error
		}
		dir = o.workspace
	}
	if dir == "" || a.kept.wasTemporary("") {
		return nil, nil
	}
	if pathname.Real(dir) != pathname.Real(away.Dir) {
		a.checkpoints.warn(fmt.Sprintf("the last files of this conversation were in the engine's %s when its process ended; checkpoint %d has them, and they come back if it goes on in %s instead", oneLine(away.On, maxLeftOutName), away.N, oneLine(away.Dir, maxLeftOutName)))
		return nil, nil
	}
	return checkpoint.Local(away.Dir), nil
}

// noteAway notes that commands change files in a volume now, before the conversation
// tells of it.
func (a *Agent) noteAway(ctx context.Context) {
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if a.checkpoints.book == nil || !ours || rt.HostDir() != "" {
		return
	}
	if err := a.checkpoints.book.WentAway(context.WithoutCancel(ctx), a.keptFiles()); err != nil {
		a.checkpoints.warn("that the files are in a volume could not be kept: " + err.Error())
	}
}

// endFiles cleans the runtime up. It notes that this has brought the files back.
func (a *Agent) endFiles() error {
	err := a.cleanup()
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if a.checkpoints.book == nil || err != nil || a.opts.lent || !ours || rt.info.Temporary {
		return err
	}
	if err := a.checkpoints.book.CameHome(context.Background(), rt.Dir()); err != nil {
		// The next agent puts them back again, which changes nothing.
		a.log.Warn("that the files are back from the volume is not noted", "error", err)
	}
	return nil
}

// tellHome tells what bringHome did.
func (a *Agent) tellHome() {
	home := a.checkpoints.home
	if home == nil {
		return
	}
	a.checkpoints.home = nil
	text := fmt.Sprintf("when the last process ended, the files were in the engine's %s; they are back in %s, as they were on %s",
		oneLine(home.Away.On, maxLeftOutName), oneLine(home.Away.Dir, maxLeftOutName), home.Away.Time.Local().Format("2006-01-02 at 15:04:05"))
	done := Restored{To: checkpointOf(home.Away)}
	if home.Back != nil {
		done = a.restored(context.Background(), *home.Back, home.before)
		done.Changed, done.MoreChanged = nil, false // what the user changed, and not this
		text += ", before the turn that was interrupted: what it did is in the volume alone"
	}
	for _, k := range home.Kept {
		at := slices.IndexFunc(done.Kept, func(other KeptFile) bool { return other.Path == k.Name })
		if at < 0 {
			done.Kept = append(done.Kept, KeptFile{})
			at = len(done.Kept) - 1
		}
		done.Kept[at] = KeptFile{Path: k.Name, Why: k.Why, Aside: k.At}
	}
	text = strings.Join(append([]string{text + "; pygent prune says how it is copied from there"}, done.Notes()...), "; ")
	if home.Back == nil {
		a.tellAtFirst(text)
		return
	}
	a.checkpoints.tell(Event{Type: EventRestored, Restored: &done, Text: text})
}
