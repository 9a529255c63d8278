package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/snapshot"
)

// agent is what is needed of an agent that is not public.
type agent interface {
	Emit(e pygent.Event)
	// Resting calls f while no run goes on.
	Resting(ctx context.Context, f func(context.Context) error) error
	MayWrite(ctx context.Context, dir string) error
	// Files are those of the runtime, whose calls may not return.
	Files() (from export.Source, list func(ctx context.Context, depth, most int) (files []pygent.FileInfo, more bool, err error))
	CopyHistory(path string) (*pygent.History, error)
	// Log is where the program logs, "" if that is not known, from where it has been the
	// agent's, and the directories in which commands can have put another file in its place.
	Log() (file string, from int64, writable []string)
}

// SaveOption adjusts [Save].
type SaveOption func(*saveOptions)

type saveOptions struct{ replace bool }

// Replace lets Save replace another snapshot. A directory that is none is
// refused nevertheless.
func Replace() SaveOption { return func(o *saveOptions) { o.replace = true } }

// Save keeps an agent in a new directory: its files, its conversation, how it is
// set up, and its log. [Load] reads it. dir must not exist, or be empty
// ([ErrExists]), and lie outside of what the agent's commands can write to.
//
// There is all of the snapshot or nothing of it, also after a crash of the machine;
// one that is replaced is there until the new one is. No key of this program is in
// it: see [pygent.Setup]. The workspace is copied as it is, with .git and with what ignore
// files name; so is what the model and the tools have said. Left out, and named by
// [Snapshot.LeftOut], are devices, pipes and sockets, and what cannot be read.
// Files are copied at any size, as [pygent.MaxCopyBytes] allows.
//
// While a run goes on, the error is [pygent.ErrAgentBusy], and no run begins while Save
// works. Commands in the background and tasks are not part of a snapshot; what they
// write meanwhile may be in it or not.
func Save(ctx context.Context, a *pygent.Agent, dir string, opts ...SaveOption) (*Snapshot, error) {
	var o saveOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	from, _ := bridge.Inside(a)
	s := &saving{agent: from.(agent)}
	var made *Snapshot
	err := s.agent.Resting(ctx, func(ctx context.Context) (err error) {
		s.setup = portable(a.Setup())
		made, err = s.save(ctx, dir, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("save to %s: %w", dir, err)
	}
	return made, nil
}

// saving is an agent that is saved.
type saving struct {
	agent agent
	setup pygent.Setup
	about snapshot.About
}

func (s *saving) save(ctx context.Context, dir string, o saveOptions) (_ *Snapshot, err error) {
	if dir == "" {
		return nil, errors.New("no directory is named")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := s.agent.MayWrite(ctx, dir); err != nil {
		return nil, err
	}
	draft, err := snapshot.Begin(dir, o.replace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, draft.Discard()) }()
	s.about.Saved = time.Now().UTC()
	if s.about.Setup, err = json.Marshal(s.setup); err != nil {
		return nil, err
	}
	ctx, told := s.tell(ctx)
	defer told()
	if err := s.files(ctx, draft.Dir()); err != nil {
		return nil, err
	}
	history, err := s.agent.CopyHistory(filepath.Join(draft.Dir(), snapshot.History))
	if err != nil {
		return nil, err
	}
	s.about.Messages = history.Len()
	if err := s.log(ctx, filepath.Join(draft.Dir(), snapshot.Log)); err != nil {
		return nil, err
	}
	about, err := draft.Commit(ctx, s.about)
	return &Snapshot{dir: dir, about: about, setup: s.setup, history: history}, err
}

// tellEvery is how often people are told how far it is, at most.
const tellEvery = 100 * time.Millisecond

// tell returns a context whose progress is told until end is called.
func (s *saving) tell(ctx context.Context) (_ context.Context, end func()) {
	to := progress.NewThrottle(tellEvery, func(p pygent.ProgressInfo) { s.agent.Emit(pygent.Event{Type: pygent.EventSaving, Progress: &p}) })
	return progress.With(ctx, func(done, total int64) {
		to.Put(pygent.ProgressInfo{Text: "saving", Current: done, Total: total})
	}), to.End
}

// portable is a setup without what is true of this machine only.
func portable(s pygent.Setup) pygent.Setup {
	s.Machine, s.Repositories = pygent.ContainerConfig{}, nil
	s.Runtime.Local.Readable, s.Runtime.Local.Writable = nil, nil
	return s
}

// files copies the workspace.
func (s *saving) files(ctx context.Context, to string) error {
	from, list := s.agent.Files()
	toCopy := int64(0)
	if list != nil {
		toCopy = s.look(ctx, list)
	}
	work := filepath.Join(to, snapshot.Workspace)
	lost, err := export.Copy(ctx, from, work)
	if err != nil {
		return err
	}
	progress.Reach(ctx, toCopy) // holes in files are not copied
	for _, name := range lost {
		s.about.LeftOut = append(s.about.LeftOut, snapshot.LeftOut{Path: name, Why: "it cannot be read"})
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(filepath.FromSlash(bridge.SkillCopies)), root.Close())
}

// Bounds of what is looked at before the files are copied.
const (
	mostLookedAt = 100_000  // files
	mostLeftOut  = 1000     // names in a snapshot
	slowToSave   = 64 << 20 // bytes; more are announced
	manyToSave   = 10_000   // files
	lookingSaves = 30 * time.Second
)

// look names what is no file, directory or link, and tells how much is
// saved if that takes a while. It returns how many bytes the files have. A workspace that cannot be listed is copied
// nevertheless, as far as it can be.
func (s *saving) look(ctx context.Context, list func(ctx context.Context, depth, most int) ([]pygent.FileInfo, bool, error)) (bytes int64) {
	ctx, cancel := context.WithTimeout(ctx, lookingSaves)
	defer cancel()
	files, more, err := list(ctx, pygent.NoLimit, mostLookedAt)
	if err != nil {
		return 0
	}
	for _, f := range files {
		switch {
		case f.Mode.IsRegular():
			bytes += f.Size
		case f.Mode&fs.ModeSymlink != 0 || f.Mode.IsDir():
		case len(s.about.LeftOut) == mostLeftOut:
			s.about.More = true
		default:
			s.about.LeftOut = append(s.about.LeftOut, snapshot.LeftOut{Path: f.Path, Why: "no regular file"})
		}
	}
	s.about.More = s.about.More || more
	if bytes >= slowToSave || len(files) >= manyToSave {
		progress.Expect(ctx, 2*bytes) // they are copied, and then compared
		s.agent.Emit(pygent.Event{Type: pygent.EventNotice, Text: fmt.Sprintf("saving %s in %s; this may take a while", numeral.Bytes(bytes), numeral.Count(len(files), "file"))})
	}
	return bytes
}

// log copies what was logged since the agent was made.
func (s *saving) log(ctx context.Context, to string) error {
	file, begins, writable := s.agent.Log()
	if file == "" {
		return nil
	}
	from, err := pathname.OpenInside(writable, file, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the log %s: %w", file, err)
	}
	defer from.Close()
	if err := copyFrom(ctx, from, begins, to); err != nil {
		return fmt.Errorf("the log %s: %w", file, err)
	}
	return nil
}

// copyFrom copies a file from a place on.
func copyFrom(ctx context.Context, from *os.File, begins int64, to string) error {
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= begins {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(from, begins, info.Size()-begins))
	return errors.Join(err, context.Cause(ctx), f.Close())
}
