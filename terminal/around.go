package terminal

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

// Bounds of what is shown of what goes on besides the turn.
const (
	shownTasks  = 4
	shownJobs   = 3
	shownPrompt = 60   // bytes of a task's prompt
	maxTasks    = 1000 // tasks that are followed
)

// around is what goes on besides the turn.
type around struct {
	tasks map[string]*task
	jobs  []pygent.Job
	pull  *pygent.RuntimeEvent // the download of an image; nil for none
}

// task is a background task that has not ended.
type task struct {
	label string
	since time.Time
	doing string
}

func (a *around) moves() bool { return len(a.tasks) > 0 || a.pull != nil }

// note follows the jobs and the runtime.
func (a *around) note(s *session, e pygent.Event) {
	if e.Type == pygent.EventJobs {
		a.jobs = e.Jobs
		return
	}
	r := e.Runtime
	if r.Kind == pygent.RuntimePull && r.Current < r.Total {
		a.pull = r
		return
	}
	a.pull = nil
	if r.Kind != pygent.RuntimeFailed { // the run reports it, and so does the start of the session
		s.tell(s.theme.dim("· " + visible(e.Text)))
	}
}

// taskEvent follows a background task.
func (s *session) taskEvent(e pygent.Event) {
	a := &s.around
	if a.tasks == nil {
		a.tasks = map[string]*task{}
	}
	t := a.tasks[e.Task]
	if e.Type != pygent.EventTask {
		if t == nil {
			return
		}
		switch e.Type {
		case pygent.EventModelStart:
			t.doing = "waits for the model"
		case pygent.EventToolCall:
			t.doing = oneLine(words(e))
		case pygent.EventApproval:
			t.doing = "waits for your approval"
		}
		return
	}
	status := e.TaskStatus
	switch {
	case status == nil:
	case status.State.AtRest():
		delete(a.tasks, e.Task)
	case t == nil && len(a.tasks) < maxTasks:
		a.tasks[e.Task] = &task{label: labelOf(*status), since: e.Time}
	}
	text := "task " + oneLine(e.Task)
	if status != nil && t == nil {
		text = "task " + labelOf(*status)
	}
	if status != nil && status.Question() != nil {
		q := status.Question()
		s.tell(s.theme.warn("◆ " + text + " asks: " + oneLine(strings.Join(append([]string{q.Prompt}, q.Options...), " | "))))
		return
	}
	s.tell(s.theme.accent("◆ ") + text + ": " + visible(e.Text))
}

// labelOf is the task's id, who works on it and the beginning of its prompt.
func labelOf(s pygent.TaskStatus) string {
	about := cut.Head(oneLine(s.Prompt), shownPrompt)
	if s.Persona.Name != "" {
		about = oneLine(s.Persona.Name) + ": " + about
	}
	return oneLine(s.ID) + " (" + about + ")"
}

// taskLabel is labelOf for the task of an id.
func (s *session) taskLabel(ctx context.Context, id string) string {
	status, err := s.agent.Tasks().Status(ctx, id)
	if err != nil {
		return oneLine(id)
	}
	return labelOf(status)
}

// rows shows the tasks, the jobs and the download of an image.
func (a *around) rows(s *session, now time.Time) (rows []string) {
	if p := a.pull; p != nil && p.Total > 0 {
		rows = append(rows, bar(p.Current, p.Total)+" "+s.theme.dim(oneLine(p.Text)))
	}
	for i, id := range slices.Sorted(maps.Keys(a.tasks)) {
		if i == shownTasks {
			rows = append(rows, s.theme.dim("  … and "+count(len(a.tasks)-i, "other task")))
			break
		}
		t := a.tasks[id]
		row := s.theme.accent(spinner(now)) + " task " + t.label + s.theme.dim(" · "+wholeSeconds(now.Sub(t.since)))
		if t.doing != "" {
			row += s.theme.dim(" · " + t.doing)
		}
		rows = append(rows, row)
	}
	shown := 0
	for _, j := range a.jobs {
		if j.Running && shown < shownJobs {
			shown++
			rows = append(rows, s.theme.dim("& "+oneLine(j.ID)+": "+oneLine(j.Command)))
		}
	}
	return rows
}

// facts says for the status line what goes on.
func (a *around) facts() (facts []string) {
	running := 0
	for _, j := range a.jobs {
		if j.Running {
			running++
		}
	}
	if running > 0 {
		facts = append(facts, count(running, "job"))
	}
	if n := len(a.tasks); n > 0 {
		facts = append(facts, count(n, "task"))
	}
	return facts
}

// count is a number of things: "1 job", "2 jobs".
func count(n int, thing string) string { return numeral.Count(n, thing) }
