package pygent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/sessiondir"
)

// keptSession writes session.json of an agent's session. Its methods do nothing for
// nil.
type keptSession struct {
	dir   *sessiondir.Session
	isNew bool // there was no session before

	mu      sync.Mutex // guards what follows
	info    SessionInfo
	before  UsageReport // of the agents that had the session before
	begun   time.Time   // when the last run began
	written time.Time   // the last time
	failed  bool        // that session.json cannot be written was told
}

// openConversation opens the history, and the session that it belongs to, if any.
func (a *Agent) openConversation(o *options) (err error) {
	if o.sessionDir == "" {
		a.history, err = o.openHistory()
		return err
	}
	if a.kept, err = openSession(o.sessionDir); err != nil {
		return err
	}
	if a.history, err = o.openHistory(); err != nil {
		return errors.Join(notKept(o.sessionDir, err), a.kept.close(nil))
	}
	a.history.store.file.lenient = true
	a.kept.load(a.history)
	if dir, err := os.Getwd(); err == nil {
		a.kept.info.Dir = dir // the project may have been moved since
	}
	return nil
}

// settleSession says where the conversation of a session is, from which the agent's id
// is derived.
func (o *options) settleSession() {
	if o.sessionDir != "" {
		o.historyFile = filepath.Join(o.sessionDir, sessiondir.HistoryFile)
	}
}

// openSession opens the session in a directory.
func openSession(path string) (*keptSession, error) {
	dir, err := sessiondir.Open(path)
	if err != nil {
		return nil, notKept(path, err)
	}
	_, infoErr := dir.Info()
	_, historyErr := os.Lstat(filepath.Join(path, sessiondir.HistoryFile))
	isNew := errors.Is(infoErr, fs.ErrNotExist) && errors.Is(historyErr, fs.ErrNotExist)
	return &keptSession{dir: dir, isNew: isNew, info: SessionInfo{ID: filepath.Base(path)}}, nil
}

// notKept is the error of a session that cannot be opened.
func notKept(path string, err error) error {
	if errors.Is(err, ErrSessionInUse) {
		return fmt.Errorf("open session %s: %w", filepath.Base(path), err)
	}
	if errors.Is(err, ErrHistoryInUse) {
		return fmt.Errorf("open session %s: %w", filepath.Base(path), ErrSessionInUse)
	}
	return fmt.Errorf("%w: %w", ErrSessionNotKept, err)
}

// load reads what is known of the session. A damaged session.json is kept beside.
func (k *keptSession) load(h *History) {
	if k.isNew {
		return
	}
	var info SessionInfo
	data, err := k.dir.Info()
	if err == nil {
		info, err = readSession(data)
	}
	if err != nil {
		note := fmt.Sprintf("what was known of the session is lost, and its conversation is not: %v", err)
		if name, failed := k.dir.SetAside(time.Now()); failed == nil {
			note += "; the file is kept as " + name
		}
		h.repairs = append(h.repairs, note)
		return
	}
	info.ID = k.info.ID
	k.info, k.before = info, info.Usage
}

// writeWithin is how often session.json is written during a long run at most.
const writeWithin = 2 * time.Second

// begin notes that a run begins with a message of the user, which may be empty.
func (k *keptSession) begin(a *Agent, msg string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.info.Title == "" {
		k.info.Title = titleOf(cmp.Or(a.history.firstOfUser(), msg))
	}
	k.write(a)
	k.begun = k.written
}

// goOn notes that a run goes on.
func (k *keptSession) goOn(a *Agent) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.info.Title == "" || k.isDue() {
		k.write(a)
	}
}

// isDue reports whether session.json is to be written again: at the first step of a run,
// often in its first moments, and then less and less. So what is listed of one that was
// killed is never much older than half of the run. The caller holds mu.
func (k *keptSession) isDue() bool {
	return time.Since(k.written) >= min(writeWithin, k.written.Sub(k.begun))
}

// update notes what has changed.
func (k *keptSession) update(a *Agent) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.write(a)
}

// write writes session.json. That it cannot be written is told once. The caller holds
// mu.
func (k *keptSession) write(a *Agent) {
	k.describe(a)
	setup, err := json.Marshal(a.Setup())
	data, infoErr := json.MarshalIndent(sessionFile{sessionVersion, k.info, setup}, "", "  ")
	if err = cmp.Or(err, infoErr); err == nil {
		err = k.dir.WriteInfo(append(data, '\n'))
	}
	if k.written = time.Now(); err == nil {
		k.failed = false
	} else if !k.failed {
		k.failed = true
		a.emit(Event{Type: EventWarning, Text: "what is known of the session cannot be kept: " + err.Error()})
	}
}

// describe brings the description of the session up to date.
func (k *keptSession) describe(a *Agent) {
	i := &k.info
	if i.Created.IsZero() {
		i.Created = timeOfEntry().Truncate(time.Second)
	}
	i.Used = timeOfEntry().Truncate(time.Second)
	if title := a.history.Info().Title; title != "" {
		i.Title = titleOf(title)
	} else if i.Title == "" {
		i.Title = titleOf(a.history.firstOfUser())
	}
	i.Persona, i.Model = oneLine(a.Persona().Name, maxTitle), oneLine(a.currentModel().asked(), maxTitle)
	i.Messages = a.history.inEffect()
	i.Usage = k.before.add(a.Usage())
	i.Workspace, i.Temporary = "", false
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours {
		i.Temporary = rt.info.Temporary
		switch {
		case !i.Temporary:
			i.Workspace = rt.Dir()
		case !a.isClosed():
			i.Workspace = rt.HostDir()
		}
	}
}

// end writes the last state of the session, whose temporary workspace is gone.
func (k *keptSession) end(a *Agent) {
	if k != nil && a.runtime != nil && a.history.spoken() > 0 {
		k.update(a)
	}
}

// close lets others open the session. One in which nothing was said is removed.
func (k *keptSession) close(h *History) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	silent := h == nil || h.spoken() == 0
	if silent && (k.isNew || h != nil && len(h.Repairs()) == 0) {
		return k.dir.Remove()
	}
	return k.dir.Close()
}

// firstOfUser returns what the user said first.
func (h *History) firstOfUser() string {
	for _, e := range h.shared() {
		if e.Message.Role == RoleUser && isOfUser(e.Message, e.Source) && strings.TrimSpace(e.Message.Text()) != "" {
			return e.Message.Text()
		}
	}
	return ""
}

// add returns what was used in two reports together.
func (u UsageReport) add(v UsageReport) UsageReport {
	sum := UsageReport{Own: u.Own.Add(v.Own), Tasks: u.Tasks.Add(v.Tasks), Cost: u.Cost + v.Cost}
	sum.Unpriced = slices.Compact(slices.Sorted(slices.Values(slices.Concat(u.Unpriced, v.Unpriced))))
	if len(u.Models)+len(v.Models) > 0 {
		sum.Models = maps.Clone(u.Models)
		if sum.Models == nil {
			sum.Models = map[string]Usage{}
		}
		for model, used := range v.Models {
			if _, counted := sum.Models[model]; !counted && len(sum.Models) >= maxMeteredModels {
				model = ""
			}
			sum.Models[model] = sum.Models[model].Add(used)
		}
	}
	return sum
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
