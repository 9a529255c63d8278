package pygent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/inventory"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/survey"
)

// TaskLeft is what a run of a task left that reached a limit, failed or was
// cancelled, and so could not tell itself. The files are still there:
// [TaskManager.CollectFile] copies them. Texts are bounded, but may be those of a
// stranger.
type TaskLeft struct {
	// Call is what its agent did last, in a line: "$ go test ./..." or "write
	// main.go". It is empty if it called no tool.
	Call string `json:"call,omitempty"`
	// Outcome is how that ended, in words: "exit 1", "stopped at its time limit".
	Outcome string `json:"outcome,omitempty"`
	// Files are at most 30 files of its workspace, those that differ from what it
	// began with first. It is empty if the runtime is no [FileLister] or does not
	// answer.
	Files []TaskFile `json:"files,omitempty"`
	// More is how many files there are besides.
	More int `json:"more,omitempty"`
	// Partial says that the workspace could not be looked through: there may be
	// other files.
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
	maxLeftBytes = 1500 // of the files' names and sizes, for a model
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

// left tells what a run leaves, if it was cancelled or ended by a limit or an
// error. It tells nothing if the manager is being closed, which then need not wait.
func (t *localTask) left(result *Result, cause error, outcome func(*TaskStatus)) *TaskLeft {
	end := TaskStatus{Result: result}
	outcome(&end)
	within := lookWithin
	if end.State == TaskCancelled {
		within = lookAtCancelled
	}
	agent := t.worker()
	if agent == nil || cause == errManagerClosing || !slices.Contains([]TaskState{TaskTimedOut, TaskFailed, TaskCancelled}, end.State) {
		return nil
	}
	t.mu.Lock()
	did, began := t.did, t.began
	t.mu.Unlock()
	left := &TaskLeft{Call: did.title, Outcome: did.outcome}
	changes, more, whole := takeInventory(agent.Runtime(), within).Since(began, maxLeftFiles)
	left.More, left.Partial = more, !whole
	for _, c := range changes {
		left.Files = append(left.Files, TaskFile{Path: c.Path, Size: c.Size, Change: TaskFileChange(c.Kind)})
	}
	if left.Call == "" && len(left.Files) == 0 {
		return nil
	}
	return left
}

// madeFiles are files that a task made or changed.
type madeFiles struct {
	names []string // at most maxLeftFiles
	more  bool     // there are others
}

// noteMade looks for the files that a run made which has finished. Nobody needs them if
// they are collected, or if the answer was all that was wanted; else they go when the
// manager is closed, which [localTask.uncollected] is for.
func (t *localTask) noteMade(result *Result, outcome func(*TaskStatus)) {
	end := TaskStatus{Result: result}
	outcome(&end)
	agent := t.worker()
	t.mu.Lock()
	called, began := t.did.title != "", t.began
	t.mu.Unlock()
	if agent == nil || end.State != TaskFinished || !called {
		return
	}
	var made madeFiles
	changes, rest, whole := takeInventory(agent.Runtime(), lookAtCancelled).Since(began, maxLeftFiles)
	for _, c := range changes {
		if (c.Kind == inventory.New || c.Kind == inventory.Changed) && !isOwnFile(c.Path) {
			made.names = append(made.names, plainLine(c.Path))
		}
	}
	made.more = (rest > 0 || !whole) && len(made.names) == len(changes) && len(changes) > 0
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = made
}

// collected notes that somebody has taken files of the task.
func (t *localTask) collected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = madeFiles{}
}

// uncollected tells of the files that go with the task, in a line; empty for none.
func (t *localTask) uncollected() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.made.names) == 0 || !t.status.State.AtRest() {
		return ""
	}
	return fmt.Sprintf("task %s made files that were not collected, and go with it: %s", t.spec.ID, numeral.Some(t.made.names, namedTemporary, t.made.more))
}

// lastCall is the call that an agent made last.
type lastCall struct{ id, title, outcome string }

// note updates the call by an event of the agent.
func (c *lastCall) note(e Event) {
	switch e.Type {
	case EventToolCall:
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
	var b strings.Builder
	if l.Call != "" {
		fmt.Fprintf(&b, "It did last: %s (%s)\n", l.Call, l.Outcome)
	}
	if len(l.Files) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	b.WriteString("Its workspace has, for collect_file:\n")
	shown, size := 0, 0
	for _, f := range l.Files {
		line := f.line()
		if size += len(line); size > maxLeftBytes {
			break
		}
		shown++
		b.WriteString("- " + line + "\n")
	}
	switch more := l.More + len(l.Files) - shown; {
	case l.Partial:
		b.WriteString("- and perhaps more, not all was looked through\n")
	case more > 0:
		fmt.Fprintf(&b, "- and %s\n", numeral.Count(more, "other file"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// line is a file in words.
func (f TaskFile) line() string {
	about := numeral.Count(f.Size, "byte")
	switch f.Change {
	case FileRemoved:
		about = string(FileRemoved)
	case "":
	default:
		about = string(f.Change) + ", " + about
	}
	return fmt.Sprintf("%s (%s)", survey.Quote(f.Path), about)
}
