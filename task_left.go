package pygent

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/inventory"
	"github.com/x/pygent/internal/plain"
)

// TaskLeft is what a run of a task left: the files that the task has changed. If
// the run reached a limit, failed or was cancelled, and so could not tell itself, it
// is also what its agent did last, and the other files. They are still there:
// [TaskManager.CollectFile] copies them. Texts are bounded, but may be those of a
// stranger.
type TaskLeft struct {
	// Call is what its agent did last, in a line: "$ go test ./..." or "write
	// main.go". It is empty if it called no tool, or finished.
	Call string `json:"call,omitempty"`
	// Outcome is how that ended, in words: "exit 1", "stopped at its time limit".
	Outcome string `json:"outcome,omitempty"`
	// Files are at most 30 files of its workspace, those that differ from what the
	// task began with first, and no others if it finished. What is in .git, and in caches
	// such as node_modules, is left out. It is empty if the runtime is no [FileLister] or
	// does not answer.
	Files []TaskFile `json:"files,omitempty"`
	// More is how many such files there are besides.
	More int `json:"more,omitempty"`
	// Partial says that the workspace could not be looked through, now or when the task
	// began: there may be other files.
	Partial bool `json:"partial,omitempty"`
}

// TaskFile is a file in the workspace of a task.
type TaskFile struct {
	Path   string         `json:"path"` // relative to the workspace, slash-separated
	Size   int64          `json:"size"`
	Change TaskFileChange `json:"change,omitempty"`
}

// TaskFileChange is what became of a file since the task began, as far as sizes and
// times show. It is empty for a file that is as it was, and where that is not
// known.
type TaskFileChange string

// The changes of files.
const (
	FileNew     TaskFileChange = TaskFileChange(inventory.New)
	FileChanged TaskFileChange = TaskFileChange(inventory.Changed)
	FileRemoved TaskFileChange = TaskFileChange(inventory.Removed)
)

// Bounds of what is told of a task that did not finish.
const (
	maxLeftFiles = 30
	maxLeftCall  = 300
	// lookWithin is how long a look at the workspace may take, and
	// lookAtCancelled how long the end of a cancelled task may wait for it.
	lookWithin      = 2 * time.Second
	lookAtCancelled = time.Second
)

// takeInventory looks at the workspace of a task, for a limited time. If the
// runtime does not answer, it gives up after twice that time, and the inventory knows
// of nothing.
func takeInventory(rt Runtime, within time.Duration) (inv inventory.Inventory) {
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok {
		return inv
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	found := inv
	err := guard.Within(2*within, func() error {
		found = inventory.Take(ctx, func(ctx context.Context, dir string, limit int) ([]inventory.File, bool, error) {
			infos, more, err := lister.ListFiles(ctx, dir, 1, limit)
			files := make([]inventory.File, len(infos))
			for i, f := range infos {
				files[i] = inventory.File{Path: f.Path, Size: f.Size, Time: f.ModTime, Dir: f.Mode.IsDir()}
			}
			return files, more, err
		})
		return nil
	})
	if err != nil {
		return inv
	}
	return found
}

// left tells what a run leaves, if it finished, was cancelled or ended by a limit or an
// error. It tells nothing if the manager is being closed, which then need not wait.
func (t *localTask) left(result *Result, cause error, outcome func(*TaskStatus)) *TaskLeft {
	end := TaskStatus{Result: result}
	outcome(&end)
	within := lookWithin
	if end.State == TaskCancelled {
		within = lookAtCancelled
	}
	agent := t.worker()
	if agent == nil || cause == errManagerClosing || end.State == TaskAwaitingUser {
		return nil
	}
	t.mu.Lock()
	did, began, changed := t.did, t.began, t.changed
	t.mu.Unlock()
	left, since := &TaskLeft{Call: did.title, Outcome: did.outcome}, inventory.Inventory.Since
	if end.State == TaskFinished {
		if did.title == "" {
			return changed // it only talked, and its container need not start for a look
		}
		left, since = &TaskLeft{}, inventory.Inventory.Differing
	}
	now := takeInventory(agent.Runtime(), within)
	told := since(now, began, maxLeftFiles)
	left.More, left.Partial = told.More, told.Partial
	for _, c := range told.Changes {
		left.Files = append(left.Files, TaskFile{Path: c.Path, Size: c.Size, Change: TaskFileChange(c.Kind)})
	}
	if left.Call == "" && len(left.Files) == 0 && !(left.Partial && now.Looked()) {
		left = nil
	}
	if end.State == TaskFinished {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed = left
	}
	return left
}

// collected notes that somebody has taken files of the task.
func (t *localTask) collected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = true
}

// uncollected tells of the files that go with a task that finished, in a line; empty for
// none. Nobody needs them if some were collected, or if the answer was all that was wanted.
func (t *localTask) uncollected() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if names := t.status.Left.told().Named(); names != "" && !t.taken && t.status.State == TaskFinished {
		return fmt.Sprintf("task %s made files that were not collected, and go with it: %s", t.spec.ID, names)
	}
	return ""
}

// lastCall is the call that an agent made last.
type lastCall struct{ id, title, outcome string }

// note updates the call by an event of the agent.
func (c *lastCall) note(e Event) {
	switch e.Type {
	case EventToolCall:
		if endsRun(e.Call.Name) {
			return // it did nothing
		}
		c.id, c.outcome = e.Call.ID, "not finished"
		c.title = e.Call.Name
		if e.Tool != nil {
			c.title = cmp.Or(e.Tool.Summary, e.Call.Name)
		}
		c.title = plainLine(c.title)
	case EventToolDone:
		if e.Call.ID == c.id {
			c.outcome = outcomeInWords(e.Output)
		}
	}
}

// outcomeInWords says how a call ended.
func outcomeInWords(r *ToolResult) string {
	switch {
	case r == nil:
		return ""
	case r.Outcome == OutcomeInterrupted || r.Outcome == OutcomeNotRun || r.Outcome == OutcomeDenied:
		return strings.ReplaceAll(string(r.Outcome), "_", " ")
	case r.Bash == nil && r.Outcome == OutcomeFailed:
		return "failed: " + plainLine(r.Content)
	case r.Bash == nil:
		return "done"
	case r.Bash.GoesOn:
		return "went on as job " + r.Bash.Job
	case r.Bash.TimedOut || r.IsError:
		return "stopped before its end"
	}
	return fmt.Sprintf("exit %d", r.Bash.ExitCode)
}

// plainLine returns the beginning of a text without anything that is no character.
func plainLine(text string) string {
	text = plain.Clean(cut.Head(text, 4*maxLeftCall))
	return cut.Line(text, maxLeftCall)
}

// words tells a model what a task left.
func (l *TaskLeft) words() string {
	if l.Call == "" {
		return l.told().List("It changed these files, for collect_file:")
	}
	did := fmt.Sprintf("It did last: %s (%s)", l.Call, l.Outcome)
	return strings.TrimSuffix(did+"\n"+l.told().List("Its workspace has, for collect_file:"), "\n")
}

// told are the files that a task left, which may be nil.
func (l *TaskLeft) told() (t inventory.Told) {
	if l == nil {
		return t
	}
	t.More, t.Partial = l.More, l.Partial
	for _, f := range l.Files {
		t.Changes = append(t.Changes, inventory.Change{File: inventory.File{Path: f.Path, Size: f.Size}, Kind: inventory.Kind(f.Change)})
	}
	return t
}
