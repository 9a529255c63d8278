package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/filediff"
	"github.com/x/pygent/internal/numeral"
)

// maxTasks is how many tasks the panel shows.
const maxTasks = 100

// tasks are the agent's background tasks on the page, in the order in which they began.
type tasks struct {
	list []*task
}

// task is a background task in the panel, with a view of its own.
type task struct {
	id     string
	status pygent.TaskStatus
	view   view
}

// show shows the tasks in a new view, without what they have done so far.
func (l *tasks) show(s *session) {
	known, err := s.agent.Tasks().Tasks(s.ctx, pygent.TaskFilter{Root: s.agent.ID()})
	if err != nil {
		return // there are none, or the session ends
	}
	for _, t := range l.list {
		t.view.end()
	}
	l.list = nil
	for _, status := range known {
		if s.owns(status) {
			t := l.add(s, status.ID)
			t.status = status
			t.head()
		}
	}
}

// owns reports whether a task is one of the session's agent, or of its tasks. A task
// manager may serve several agents.
func (s *session) owns(t pygent.TaskStatus) bool {
	return t.Root == s.agent.ID() || t.Parent == s.agent.ID()
}

// add shows a task that is new.
func (l *tasks) add(s *session, id string) *task {
	key := "t-" + newEpoch()
	t := &task{id: id, view: view{log: s.log, root: key + ".s"}}
	l.list = append(l.list, t)
	if len(l.list) > maxTasks {
		s.log.del(strings.TrimSuffix(l.list[0].view.root, ".s"))
		l.list[0].view.end()
		l.list = l.list[1:]
	}
	s.log.put(key, "tasks", `<div class="task"><div data-slot></div></div>`)
	t.head()
	s.log.put(t.view.root, key, `<details class="stream"><summary>What it does</summary><div data-slot></div></details>`)
	return t
}

// event handles an event of a task.
func (l *tasks) event(s *session, e pygent.Event) {
	var t *task
	for _, known := range l.list {
		if known.id == e.Task {
			t = known
		}
	}
	if t == nil {
		t = l.add(s, e.Task)
	}
	switch e.Type {
	case pygent.EventTask:
		if e.TaskStatus != nil {
			t.status = *e.TaskStatus
			t.head()
		}
	case pygent.EventUser:
		if e.Source == chat.SourceUser {
			t.view.user(chat.UserMessage(e.Text))
		}
	case pygent.EventRunEnd:
		t.view.endTurn()
	case pygent.EventStep:
		t.status.Steps++
		t.head()
		t.view.event(e)
	default:
		t.view.event(e)
	}
}

func (l *tasks) dirty() bool {
	for _, t := range l.list {
		if t.view.dirty() {
			return true
		}
	}
	return false
}

// atWork reports whether a task is not at rest.
func (l *tasks) atWork() bool {
	return slices.ContainsFunc(l.list, func(t *task) bool { return !t.status.State.AtRest() })
}

func (l *tasks) paint(now time.Time) {
	for _, t := range l.list {
		t.view.paint(now)
	}
}

// head shows where a task is.
func (t *task) head() {
	st := t.status
	sign, fact, since := spinner("running"), numeral.Count(st.Steps, "step"), ""
	text := cmp.Or(st.Reason, st.Prompt)
	switch st.State {
	case pygent.TaskFinished:
		sign = dot("ok", "✓", "finished")
		if st.Result != nil {
			text = cmp.Or(st.Result.Summary, text)
		}
	case pygent.TaskAwaitingUser:
		sign, fact = dot("wait", "?", "asks"), "asks"
	case pygent.TaskFailed, pygent.TaskTimedOut:
		sign, fact = dot("bad", "✕", "failed"), strings.ReplaceAll(string(st.State), "_", " ")
	case pygent.TaskCancelled:
		sign, fact = dot("off", "○", "cancelled"), "cancelled"
	case pygent.TaskQueued:
		sign, fact = dot("off", "○", "queued"), "queued"
	default:
		if !st.Started.IsZero() {
			since = ` data-since="` + st.Started.UTC().Format(time.RFC3339) + `"`
		}
	}
	if !st.Started.IsZero() && !st.Ended.IsZero() {
		fact += " · " + numeral.Took(st.Ended.Sub(st.Started))
	}
	if names := filesOf(st.Left); names != "" {
		text = head(text, 500) + " Changed: " + names
	}
	stop := ""
	if st.State == pygent.TaskRunning || st.State == pygent.TaskQueued || st.State == pygent.TaskAwaitingUser {
		stop = fmt.Sprintf(`<button type="button" class="btn quiet" data-act="cancel-task" data-task="%s">Stop</button>`, esc(t.id))
	}
	key := strings.TrimSuffix(t.view.root, ".s")
	t.view.log.put(key+".h", key, fmt.Sprintf(`<div><div class="head">%s%s<span class="fact"%s>%s</span>%s</div><p>%s</p></div>`,
		sign, esc(oneLine(cmp.Or(st.Persona.Name, "Task"))), since, esc(fact), stop, esc(oneLine(head(text, 1000)))))
}

// filesOf names the files that a task changed, in a line; empty for none.
func filesOf(l *pygent.TaskLeft) string {
	if l == nil {
		return ""
	}
	told := filediff.Told{More: l.More, Partial: l.Partial}
	for _, f := range l.Files {
		told.Changes = append(told.Changes, filediff.Change{File: filediff.File{Path: f.Path}, Kind: filediff.Kind(f.Change)})
	}
	return told.Named()
}

// listTasks lists the tasks of a session.
func (s *Server) listTasks(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	all, err := one.agent.Tasks().Tasks(c.Context(), pygent.TaskFilter{Root: one.agent.ID()})
	if err != nil {
		return nil, err
	}
	list := []pygent.TaskStatus{}
	for _, t := range all {
		if one.owns(t) {
			list = append(list, t)
		}
	}
	return map[string]any{"tasks": list}, nil
}

// task returns a task of a session.
func (c call) task(s *Server) (*session, pygent.TaskStatus, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, pygent.TaskStatus{}, err
	}
	status, err := one.agent.Tasks().Status(c.Context(), c.PathValue("t"))
	if errors.Is(err, pygent.ErrUnknownTask) || err == nil && !one.owns(status) {
		err = fail(http.StatusNotFound, "no_task", "task not found")
	}
	return one, status, err
}

// getTask describes a task.
func (s *Server) getTask(c call) (any, error) {
	_, status, err := c.task(s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"task": status}, nil
}

// cancelTask ends a task.
func (s *Server) cancelTask(c call) (any, error) {
	one, status, err := c.task(s)
	if err != nil {
		return nil, err
	}
	return nil, one.agent.Tasks().Cancel(c.Context(), status.ID)
}
