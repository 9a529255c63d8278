package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/sessiondir"
)

// agent is what a keeper needs of its agent that is not public.
type agent interface {
	Agent() *pygent.Agent
	Emit(e pygent.Event)
	Repair(note string)
	FirstOfUser() string
	Said() []sessiondir.Said
	Messages() (all, current, anew int)
	ModelName() string
	Workspace() (dir string, info pygent.RuntimeInfo)
	IsClosed() bool
	MayWrite(ctx context.Context, dir string) error
	Fork(ctx context.Context, id int64, opts ...pygent.Option) (*pygent.Agent, error)
}

// keeper writes session.json of an agent's session. The agent calls it.
type keeper struct {
	agent agent
	path  string
	dir   *sessiondir.Session
	isNew bool // there was no session before

	mu      sync.Mutex // guards what follows
	info    Info
	before  pygent.UsageReport // of the agents that had the session before
	begun   time.Time          // when the last run began
	written time.Time          // the last time
	failed  bool               // that session.json cannot be written was told
}

// open opens the session in a directory, before there is a history.
func open(path string, a agent) (*keeper, error) {
	dir, err := sessiondir.Open(path)
	if err != nil {
		return nil, notKept(path, err)
	}
	_, infoErr := dir.Info()
	_, historyErr := os.Lstat(filepath.Join(path, sessiondir.HistoryFile))
	isNew := errors.Is(infoErr, fs.ErrNotExist) && errors.Is(historyErr, fs.ErrNotExist)
	return &keeper{agent: a, path: path, dir: dir, isNew: isNew, info: Info{ID: filepath.Base(path)}}, nil
}

// notKept is the error of a session that cannot be opened.
func notKept(path string, err error) error {
	if errors.Is(err, ErrInUse) {
		return fmt.Errorf("open session %s: %w", filepath.Base(path), err)
	}
	if errors.Is(err, chat.ErrHistoryInUse) {
		return fmt.Errorf("open session %s: %w", filepath.Base(path), ErrInUse)
	}
	return fmt.Errorf("%w: %w", ErrNotKept, err)
}

// Failed closes the session because its history cannot be opened.
func (k *keeper) Failed(err error) error {
	return errors.Join(notKept(k.path, err), k.close(true))
}

// Opened reads what is known of the session, once there is a history. A damaged
// session.json is kept beside.
func (k *keeper) Opened() {
	k.load()
	if dir, err := os.Getwd(); err == nil {
		k.info.Dir = dir // the project may have been moved since
	}
}

func (k *keeper) load() {
	if k.isNew {
		return
	}
	var info Info
	data, err := k.dir.Info()
	if err == nil {
		info, err = readInfo(data)
	}
	if err != nil {
		note := fmt.Sprintf("the details of the session are lost, but its conversation is intact: %v", err)
		if name, failed := k.dir.SetAside(time.Now()); failed == nil {
			note += "; the file is kept as " + name
		}
		k.agent.Repair(note)
		return
	}
	info.ID = k.info.ID
	k.info, k.before = info, info.Usage
}

// writeWithin is how often session.json is written during a long run at most.
const writeWithin = 2 * time.Second

// Begin notes that a run begins with a message of the user, which may be empty.
func (k *keeper) Begin(msg string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.info.Title == "" {
		k.info.Title = titleOf(cmp.Or(k.agent.FirstOfUser(), msg))
	}
	k.write()
	k.begun = k.written
}

// GoOn notes that a run goes on.
func (k *keeper) GoOn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.info.Title == "" || k.isDue() {
		k.write()
	}
}

// isDue reports whether session.json is to be written again: at the first step of a run,
// often in its first moments, and then less and less. So what is listed of one that was
// killed is never much older than half of the run. The caller holds mu.
func (k *keeper) isDue() bool {
	return time.Since(k.written) >= min(writeWithin, k.written.Sub(k.begun))
}

// Update notes what has changed.
func (k *keeper) Update() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write()
}

// write writes session.json. That it cannot be written is told once. The caller holds
// mu.
func (k *keeper) write() {
	k.describe()
	setup, err := json.Marshal(k.agent.Agent().Setup())
	data, infoErr := json.MarshalIndent(infoFile{version, k.info, setup}, "", "  ")
	if err = cmp.Or(err, infoErr); err == nil {
		err = k.dir.WriteInfo(append(data, '\n'))
	}
	if k.written = time.Now(); err == nil {
		k.failed = false
	} else if !k.failed {
		k.failed = true
		k.agent.Emit(pygent.Event{Type: pygent.EventWarning, Text: "the details of the session cannot be saved: " + err.Error()})
	}
}

// describe brings the description of the session up to date.
func (k *keeper) describe() {
	i, a := &k.info, k.agent.Agent()
	now := time.Now().UTC().Truncate(time.Second)
	if i.Created.IsZero() {
		i.Created = now
	}
	i.Used = now
	if title := a.History().Info().Title; title != "" {
		i.Title = titleOf(title)
	} else if i.Title == "" {
		i.Title = titleOf(k.agent.FirstOfUser())
	}
	i.Persona, i.Model = oneLine(a.Persona().Name, maxTitle), oneLine(k.agent.ModelName(), maxTitle)
	_, i.Messages, _ = k.agent.Messages()
	i.Usage = sum(k.before, a.Usage())
	dir, info := k.agent.Workspace()
	i.Workspace, i.Temporary = dir, info.Temporary
	switch {
	case i.Temporary && k.agent.IsClosed():
		i.Workspace = ""
	case i.Temporary:
		i.Workspace = info.HostDir
	}
}

// Ending writes the last state of the session, whose temporary workspace is gone.
func (k *keeper) Ending() {
	if all, _, _ := k.agent.Messages(); k.agent.Agent().Runtime() != nil && all > 0 {
		k.Update()
	}
}

// Close lets others open the session. One in which nothing was said is removed.
func (k *keeper) Close() error { return k.close(false) }

func (k *keeper) close(failed bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	isSilent, isWhole := failed, false
	if !failed {
		all, _, _ := k.agent.Messages()
		isSilent, isWhole = all == 0, len(k.agent.Agent().History().Repairs()) == 0
	}
	if isSilent && (k.isNew || isWhole) {
		return k.dir.Remove()
	}
	return k.dir.Close()
}

// KilledIn is the directory of this machine in which the last process had its temporary
// workspace, if that process was killed.
func (k *keeper) KilledIn() string {
	if k.isNew || !k.info.Temporary {
		return ""
	}
	return k.info.Workspace
}

// WasTemporary reports whether the workspace of the session was temporary, as far as
// that is known. dir is where it was; empty if that is not known.
func (k *keeper) WasTemporary(dir string) bool {
	if k.isNew {
		return false
	}
	if k.info.Created.IsZero() && dir != "" { // session.json was damaged
		_, err := os.Lstat(dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	return k.info.Temporary
}

// mostModels is how many models have a count of their own.
const mostModels = 100

// sum returns what was used in two reports together.
func sum(u, v pygent.UsageReport) pygent.UsageReport {
	all := pygent.UsageReport{Own: u.Own.Add(v.Own), Tasks: u.Tasks.Add(v.Tasks), Cost: u.Cost + v.Cost}
	all.Unpriced = slices.Compact(slices.Sorted(slices.Values(slices.Concat(u.Unpriced, v.Unpriced))))
	if len(u.Models)+len(v.Models) == 0 {
		return all
	}
	all.Models = maps.Clone(u.Models)
	if all.Models == nil {
		all.Models = map[string]pygent.Usage{}
	}
	for model, used := range v.Models {
		if _, counted := all.Models[model]; !counted && len(all.Models) >= mostModels {
			model = ""
		}
		all.Models[model] = all.Models[model].Add(used)
	}
	return all
}
