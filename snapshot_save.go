package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/inside"
	"github.com/x/pygent/internal/keep"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pace"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/snapshot"
)

// SaveOption adjusts [Agent.Save].
type SaveOption func(*saveOptions)

type saveOptions struct{ replace bool }

// SaveReplace lets Save replace another snapshot. A directory that is none is
// refused nevertheless.
func SaveReplace() SaveOption { return func(o *saveOptions) { o.replace = true } }

// Save keeps the agent in a new directory: its files, its conversation, how it is
// set up, and its log. [LoadSnapshot] reads it. dir must not exist, or be empty
// ([ErrSnapshotExists]), and lie outside of what the agent's commands can write to.
//
// There is all of the snapshot or nothing of it, also after a crash of the machine;
// one that is replaced is there until the new one is. No key of this program is in
// it: see [Setup]. The workspace is copied as it is, with .git and with what ignore
// files name; so is what the model and the tools have said. Left out, and named by
// [Snapshot.LeftOut], are devices, pipes and sockets, and what cannot be read.
// Files are copied at any size, as [MaxCopyBytes] allows.
//
// While a run goes on, the error is [ErrAgentBusy], and no run begins while Save
// works. Commands in the background and tasks are not part of a snapshot; what they
// write meanwhile may be in it or not.
func (a *Agent) Save(ctx context.Context, dir string, opts ...SaveOption) (*Snapshot, error) {
	var o saveOptions
	apply(&o, opts)
	ctx, end, err := a.begin(ctx)
	if err == nil {
		defer end()
		var s *Snapshot
		if s, err = a.save(ctx, dir, o); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("save to %s: %w", dir, err)
}

func (a *Agent) save(ctx context.Context, dir string, o saveOptions) (_ *Snapshot, err error) {
	if dir == "" {
		return nil, errors.New("no directory is named")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := a.checkOutside(ctx, dir); err != nil {
		return nil, err
	}
	draft, err := snapshot.Begin(dir, o.replace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, draft.Discard()) }()
	s := &Snapshot{dir: dir, setup: a.portable(), about: snapshot.About{Saved: time.Now().UTC()}}
	if s.about.Setup, err = json.Marshal(s.setup); err != nil {
		return nil, err
	}
	ctx, told := a.tellSaving(ctx)
	defer told()
	if err := a.saveFiles(ctx, draft.Dir(), &s.about); err != nil {
		return nil, err
	}
	if err := a.saveHistory(draft.Dir(), s); err != nil {
		return nil, err
	}
	if err := a.saveLog(ctx, filepath.Join(draft.Dir(), snapshot.Log)); err != nil {
		return nil, fmt.Errorf("the log %s: %w", a.opts.saved.logFile, err)
	}
	s.about, err = draft.Commit(ctx, s.about)
	return s, err
}

// EventSaving tells how far [Agent.Save] is, if that takes a while: Progress, in bytes.
// It is for display only, and comes at most ten times a second.
const EventSaving EventType = "saving"

// tellSaving returns a context whose progress is told until end is called.
func (a *Agent) tellSaving(ctx context.Context) (_ context.Context, end func()) {
	to := pace.New(progressEvery, func(p ProgressInfo) { a.emit(Event{Type: EventSaving, Progress: &p}) })
	return progress.With(ctx, func(done, total int64) {
		to.Put(ProgressInfo{Text: "saving", Current: done, Total: total})
	}), to.End
}

// portable is the agent's setup without what is true of this machine only.
func (a *Agent) portable() Setup {
	s := a.Setup()
	s.Machine = ContainerConfig{}
	s.Runtime.Local.Readable, s.Runtime.Local.Writable = nil, nil
	return s
}

// checkOutside refuses a directory that commands can write to: it would be in the
// next snapshot, and could be changed.
func (a *Agent) checkOutside(ctx context.Context, dir string) error {
	dirs := keptDirs(a.runtime)
	if host := a.describe(ctx).HostDir; host != "" {
		dirs = append(dirs, host)
	}
	in, _, err := inside.Of(dirs, dir)
	if err == nil && in != "" {
		err = fmt.Errorf("it is in %s, where the agent's commands can change it; name a directory outside", in)
	}
	return err
}

// saveFiles copies the workspace.
func (a *Agent) saveFiles(ctx context.Context, to string, about *snapshot.About) error {
	var toCopy int64
	from := keep.Source{Whole: true, Export: func(ctx context.Context, name, dest string) error {
		_, err := guard.Outlive(ctx, func() (struct{}, error) {
			defer a.enter(&a.calling, "the runtime's ExportFile")()
			return struct{}{}, a.runtime.ExportFile(ctx, name, dest)
		})
		a.logPanic("ExportFile of the runtime", err)
		return err
	}}
	if lister, ok := RuntimeAs[FileLister](a.runtime); ok {
		from.List = func(ctx context.Context, dir string, most int) (files []keep.File, more bool, err error) {
			found, more, err := a.listFiles(ctx, lister, dir, 1, most)
			for _, f := range found {
				files = append(files, keep.File{Path: f.Path, Size: f.Size, Mode: f.Mode})
			}
			return files, more, err
		}
		toCopy = a.lookBeforeSaving(ctx, lister, about)
	}
	from.Target = a.linkTarget()
	work := filepath.Join(to, snapshot.Workspace)
	lost, err := keep.Copy(ctx, from, work)
	if err != nil {
		return err
	}
	progress.Reach(ctx, toCopy) // holes in files are not copied
	for _, name := range lost {
		about.LeftOut = append(about.LeftOut, snapshot.LeftOut{Path: name, Why: "it cannot be read"})
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	// The copies of the user's own skills are made anew.
	return errors.Join(root.RemoveAll(filepath.FromSlash(skillCopies)), root.Close())
}

func (a *Agent) listFiles(ctx context.Context, lister FileLister, dir string, depth, most int) (files []FileInfo, more bool, err error) {
	files, err = guard.Outlive(ctx, func() (files []FileInfo, err error) {
		defer a.enter(&a.calling, "the runtime's ListFiles")()
		files, more, err = lister.ListFiles(ctx, dir, depth, most)
		return files, err
	})
	a.logPanic("ListFiles of the runtime", err)
	return files, more, err
}

// Bounds of what is looked at before the files are copied.
const (
	maxLookedAt  = 100_000  // files
	maxLeftOut   = 1000     // names in a snapshot
	slowToSave   = 64 << 20 // bytes; more are announced
	manyToSave   = 10_000   // files
	lookingSaves = 30 * time.Second
)

// lookBeforeSaving names what is no file, directory or link, and tells how much is
// saved if that takes a while. It returns how many bytes the files have. A workspace that cannot be listed is copied
// nevertheless, as far as it can be.
func (a *Agent) lookBeforeSaving(ctx context.Context, lister FileLister, about *snapshot.About) (bytes int64) {
	ctx, cancel := context.WithTimeout(ctx, lookingSaves)
	defer cancel()
	files, more, err := a.listFiles(ctx, lister, ".", NoLimit, maxLookedAt)
	if err != nil {
		return 0
	}
	for _, f := range files {
		switch {
		case f.Mode.IsRegular():
			bytes += f.Size
		case f.Mode&fs.ModeSymlink != 0 || f.Mode.IsDir():
		case len(about.LeftOut) == maxLeftOut:
			about.More = true
		default:
			about.LeftOut = append(about.LeftOut, snapshot.LeftOut{Path: f.Path, Why: "no regular file"})
		}
	}
	about.More = about.More || more
	if bytes >= slowToSave || len(files) >= manyToSave {
		progress.Expect(ctx, 2*bytes) // they are copied, and then compared
		a.emit(Event{Type: EventNotice, Text: fmt.Sprintf("saving %s in %s; this may take a while", numeral.Bytes(bytes), numeral.Count(len(files), "file"))})
	}
	return bytes
}

// saveHistory writes the conversation with what is known of its messages.
func (a *Agent) saveHistory(to string, s *Snapshot) (err error) {
	entries := slices.Clone(a.history.wholeOrLess())
	h, err := OpenHistory(filepath.Join(to, snapshot.History))
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		_, err = h.append(context.Background(), entries, false)
	}
	if err = errors.Join(err, h.Sync(), h.Close()); err != nil {
		return err
	}
	s.history = &History{}
	s.history.record(entries...)
	s.about.Messages = s.history.Len()
	return nil
}

// saveLog copies what was logged since the agent was made.
func (a *Agent) saveLog(ctx context.Context, to string) error {
	if a.opts.saved.logFile == "" {
		return nil
	}
	from, err := inside.OpenFile(keptDirs(a.runtime), a.opts.saved.logFile, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= a.logFrom {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(from, a.logFrom, info.Size()-a.logFrom))
	return errors.Join(err, context.Cause(ctx), f.Close())
}

// logSize is how long the log is now, so that a snapshot has what follows.
func (o *options) logSize() int64 {
	info, err := os.Stat(o.saved.logFile)
	if o.saved.logFile == "" || err != nil {
		return 0
	}
	return info.Size()
}
