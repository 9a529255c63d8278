// Package snapshot saves agents in directories, and leads back: with files, conversation and
// set-up.
//
//	_, err := snapshot.Save(ctx, agent, dir)
//	…
//	s, err := snapshot.Load(ctx, dir) // refuses one that was changed or damaged
//	agent, err := pygent.New(s.Options()...)
package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/snapshot"
)

// Errors of snapshots, to be tested with errors.Is.
var (
	// ErrExists is returned by [Save] for a directory that has
	// something in it.
	ErrExists = snapshot.ErrExists
	// ErrNone is returned for a directory that is no snapshot.
	ErrNone = snapshot.ErrNoSnapshot
	// ErrDamaged is returned for a snapshot that is not as it was saved.
	ErrDamaged = snapshot.ErrDamaged
)

// Snapshot is an agent as [Save] has kept it in a directory: its files, its
// conversation and how it was set up. It is never changed by an agent that goes on
// from it, and may be loaded any number of times.
//
// The directory can be read with plain tools: workspace/ has the files,
// history.json the conversation in OpenAI's chat format, snapshot.json the set-up
// and the counts, files.jsonl a digest of each file, and pygent.log the agent's log,
// if it wrote one.
type Snapshot struct {
	dir     string // absolute
	about   snapshot.About
	setup   pygent.Setup
	history *pygent.History
}

// maxHistory is how long the file of a conversation may be that is loaded, in bytes.
const maxHistory = 1 << 30

// Load reads a snapshot, and checks all of it: one that is not as it was
// saved is refused with an error that matches [ErrDamaged] and says what is
// wrong. It may come from a stranger: see [Snapshot.Options]. It reads all files, a
// gigabyte in a second or so, and keeps only the conversation in memory.
func Load(ctx context.Context, dir string) (*Snapshot, error) {
	s, err := load(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot %s: %w", dir, err)
	}
	return s, nil
}

func load(ctx context.Context, dir string) (*Snapshot, error) {
	if ctx == nil {
		return nil, errors.New("the context is nil")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{dir: abs}
	if s.about, err = snapshot.Open(ctx, abs); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(s.about.Setup, &s.setup); err != nil {
		return nil, fmt.Errorf("%s: %w", snapshot.Manifest, err)
	}
	for _, name := range []string{snapshot.History, snapshot.Notes} {
		if size := snapshot.Size(abs, name); size > maxHistory {
			return nil, fmt.Errorf("%s has %d bytes, and at most %d can be loaded", name, size, maxHistory)
		}
	}
	if s.history, err = chat.ReadHistory(filepath.Join(abs, snapshot.History)); err != nil {
		return nil, err
	}
	if repairs := s.history.Repairs(); len(repairs) > 0 {
		return nil, fmt.Errorf("%w: %s: %s", ErrDamaged, snapshot.History, repairs[0])
	}
	if n := s.history.Len(); n != s.about.Messages {
		return nil, fmt.Errorf("%w: %s has %s, and %s says %d", ErrDamaged, snapshot.History, numeral.Count(n, "message"), snapshot.Manifest, s.about.Messages)
	}
	return s, nil
}

// Dir returns the path of the snapshot.
func (s *Snapshot) Dir() string { return s.dir }

// Saved returns when the snapshot was taken.
func (s *Snapshot) Saved() time.Time { return s.about.Saved }

// Setup returns how the agent was set up. Of a stranger's snapshot it is not to be
// trusted: [pygent.Setup.Options] chooses where commands run.
func (s *Snapshot) Setup() pygent.Setup { return s.setup }

// Messages returns everything that was said, as [chat.History.Messages] does.
func (s *Snapshot) Messages() []pygent.Message { return s.history.Messages() }

// Files returns how many files and links the workspace has, and how many bytes.
func (s *Snapshot) Files() (count, bytes int64) {
	c := s.about.Contents
	return c.Files + c.Links, c.Bytes
}

// LeftOut names files of the workspace that are not in the snapshot, each with the
// reason: what is no file, directory or link, and what could not be read.
func (s *Snapshot) LeftOut() []string {
	var names []string
	for _, l := range s.about.LeftOut {
		names = append(names, fmt.Sprintf("%s (%s)", escape.Name(l.Path), escape.Name(l.Why)))
	}
	if s.about.More {
		names = append(names, "others")
	}
	return names
}

// Options are the options of an agent that goes on where the snapshot was saved:
// with its persona, the name of its model, its tools, its bans, its conversation and
// its files. They go after those of a configuration, and options after them
// override them:
//
//	pygent.New(append(config.Options(), s.Options()...)...)
//
// A snapshot may be a stranger's. It chooses neither the model's server nor where
// commands run, what they reach or which image they run in. Limits are only
// lowered, and bans, disabled tools and calls to be approved only added. What it
// says besides is told by [pygent.EventNotice], and so are names of variables that its
// commands had: their values are in no snapshot.
//
// The files are copied to the agent's workspace, which must be empty, and the
// messages to its history, which must have none: a temporary workspace and a history
// in memory unless other options say where.
func (s *Snapshot) Options() []pygent.Option {
	return []pygent.Option{bridge.GoOnFrom(s.dir, s.setup, s.history).(pygent.Option)}
}
