package terminal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
)

// Bounds of what is shown of what goes on besides the turn.
const (
	shownTasks   = 4
	shownJobs    = 3
	shownPrompt  = 40   // bytes of a task's prompt
	shownCommand = 100  // bytes of a job's command
	summaryLines = 6    // of what a task said at its end
	maxTasks     = 1000 // tasks that are followed
)

// around is what goes on besides the turn.
type around struct {
	tasks map[string]*task
	jobs  []pygent.Job
	asked time.Time            // when the runtime was asked about the jobs; see watchJobs
	pull  *pygent.RuntimeEvent // the download of an image; nil for none
	saves *pygent.ProgressInfo // how far /save is; shown while a command goes on
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
		s.noteJobs(e.Jobs)
		return
	}
	r := e.Runtime
	if r.Kind == pygent.RuntimePull && r.Current < r.Total {
		a.pull = r
		return
	}
	if faces.IsOfStart(r.Kind) {
		a.pull = nil
	}
	switch r.Kind {
	case pygent.RuntimeStarting, pygent.RuntimeFailed: // the status line says the one, and the run or the start of the session the other
	default:
		s.tell(s.theme.dim("· " + told(e.Text)))
	}
}

// noteJobs takes over the list of the jobs, and says which ones have ended.
func (s *session) noteJobs(jobs []pygent.Job) {
	for _, job := range s.around.ended(jobs) {
		s.tell(s.jobEnd(job))
	}
	s.around.jobs, s.display.changed = jobs, true
	s.updateLeave()
}

// askJobsEvery is how often the runtime is asked about jobs that run between turns.
// During a turn, the agent does so.
const askJobsEvery = time.Second

// askJobsAt returns when the runtime is asked about the jobs; zero for never.
func (s *session) askJobsAt() time.Time {
	if s.turn != nil || s.around.runningJobs() == 0 {
		return time.Time{}
	}
	return s.around.asked.Add(askJobsEvery)
}

// watchJobs has the agent ask the runtime about the jobs when it is time.
func (s *session) watchJobs(now time.Time) {
	at := s.askJobsAt()
	if at.IsZero() || now.Before(at) {
		return
	}
	s.around.asked = now.Add(time.Hour) // until it has answered
	s.background(func() {
		jobs, err := s.agent.Jobs(s.ctx)
		s.post(func() {
			s.around.asked = time.Now()
			if err == nil && s.turn == nil {
				s.noteJobs(jobs)
			}
		})
	})
}

// ended returns those of the jobs that ran when they were told of last.
func (a *around) ended(now []pygent.Job) (ended []pygent.Job) {
	for _, job := range now {
		ran := slices.ContainsFunc(a.jobs, func(j pygent.Job) bool { return j.ID == job.ID && j.Running })
		if ran && !job.Running {
			ended = append(ended, job)
		}
	}
	return ended
}

// jobEnd says how a job ended.
func (s *session) jobEnd(j pygent.Job) string {
	sign, how := s.theme.good("✓"), fmt.Sprintf("exit %d", j.ExitCode)
	switch {
	case j.Killed:
		sign, how = s.theme.warn("■"), "killed"
	case j.TimedOut:
		sign, how = s.theme.bad("✗"), "timed out"
	case j.ExitCode != 0:
		sign = s.theme.bad("✗")
	}
	return sign + " job " + oneLine(j.ID) + ": " + cut.Head(oneLine(j.Command), shownCommand) + s.theme.dim(" · "+how+" · "+numeral.Took(j.Duration))
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
			t.doing = "waiting for the model"
		case pygent.EventToolCall:
			t.doing = oneLine(words(e))
		case pygent.EventApproval:
			t.doing = "waiting for your approval"
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
	label := oneLine(e.Task)
	if status != nil {
		label = labelOf(*status)
	}
	if news := s.taskNews(e, label); news != "" {
		s.tell(news)
	}
	s.updateLeave()
}

// withoutEnded forgets the tasks whose end was missed.
func (a *around) withoutEnded(s *session) {
	maps.DeleteFunc(a.tasks, func(id string, _ *task) bool {
		status, err := s.agent.Tasks().Status(s.ctx, id)
		return err != nil || status.State.AtRest()
	})
}

// taskNews says what has become of a task of the label; empty if it works, which
// the live area shows.
func (s *session) taskNews(e pygent.Event, label string) string {
	sign, text := s.theme.accent("◆ "), "task "+label
	status := e.TaskStatus
	facts := " · " + visible(e.Text)
	if status == nil {
		return sign + text + s.theme.dim(facts)
	}
	if q := status.Question(); q != nil {
		return s.theme.warn("◆ " + text + " asks: " + oneLine(strings.Join(append([]string{q.Prompt}, q.Options...), " | ")))
	}
	if !status.State.AtRest() {
		return ""
	}
	if sign = s.theme.good("✓ "); status.State != pygent.TaskFinished {
		sign = s.theme.bad("✗ ")
	}
	facts += " · " + count(status.Steps, "step") + " · " + numeral.Took(status.Elapsed(e.Time))
	news := sign + text + s.theme.dim(facts)
	if summary := strings.TrimSpace(status.Summary()); summary != "" {
		news += "\n" + s.theme.dim("  "+strings.Join(glance(summary, summaryLines), "\n  "))
	}
	return news
}

// labelOf is the task's id, who works on it and the beginning of its prompt.
func labelOf(s pygent.TaskStatus) string {
	about := oneLine(s.Prompt)
	if len(about) > shownPrompt {
		about = cut.Head(about, shownPrompt) + "…"
	}
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
	if p := a.saves; p != nil && p.Total > 0 && s.command != nil {
		rows = append(rows, bar(p.Current, p.Total)+" "+s.theme.dim(oneLine(p.Text)+" · Ctrl-C skips it"))
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
			rows = append(rows, s.theme.dim("& job "+oneLine(j.ID)+": "+oneLine(j.Command)))
		}
	}
	return rows
}

// facts says for the status line what goes on.
func (a *around) facts() (facts []string) {
	if n := a.runningJobs(); n > 0 {
		facts = append(facts, count(n, "job"))
	}
	if n := len(a.tasks); n > 0 {
		facts = append(facts, count(n, "task"))
	}
	return facts
}

func (a *around) runningJobs() (n int) {
	for _, j := range a.jobs {
		if j.Running {
			n++
		}
	}
	return n
}

// count is a number of things: "1 job", "2 jobs".
func count(n int, thing string) string { return numeral.Count(n, thing) }
