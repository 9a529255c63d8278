package pygent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/notices"
)

// sayHowToAnswer tells a model what to do about a task's question.
const sayHowToAnswer = "answer with send_task"

// describeTask returns the details of a task for a model, beginning with the
// state.
func describeTask(s TaskStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n[%s]", s, taskFigures(s))
	if q := s.Question(); q != nil {
		fmt.Fprintf(&b, "\nIt asks: %s\n(%s)", strings.Join(append([]string{q.Prompt}, q.Options...), "\n- "), sayHowToAnswer)
	}
	if text := s.Summary(); text != "" {
		b.WriteString("\n" + text)
	}
	if s.Left != nil {
		b.WriteString("\n" + s.Left.words())
	}
	return b.String()
}

// listedTask is a task among others: a line, with what it asks or, if that is
// news, what it said last.
func listedTask(s TaskStatus, news bool) string {
	prompt, _, _ := strings.Cut(s.Prompt, "\n")
	line := fmt.Sprintf("%s: %s [%s] %s", s.ID, s, taskFigures(s), cut.Head(prompt, shownPrompt))
	words := lastWords(s)
	if words == "" || !news && s.Question() == nil {
		return line
	}
	return line + "\n  " + indented(words)
}

// openTask says in a line that a task is still at work, or what it asks.
func openTask(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return fmt.Sprintf("task %s asks: %s (%s, or end it with cancel_task)", s.ID, onOneLine(q.Prompt), sayHowToAnswer)
	}
	return fmt.Sprintf("task %s is %s", s.ID, s.State)
}

// indented has each further line of a text begin with blanks, so that none can
// pass for a task or a notice of its own.
func indented(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) }), "\n  ")
}

func taskFigures(s TaskStatus) string {
	figures := fmt.Sprintf("%s, %s, %s", count(s.Steps, "step"), count(s.ToolCalls, "tool call"), s.Elapsed(time.Now()).Round(time.Second))
	if s.Persona.Name != "" {
		figures = s.Persona.Name + ", " + figures
	}
	return figures
}

// count is a number of things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// taskNotices are the ended tasks that an agent's model has not been told about
// yet.
type taskNotices struct{ list notices.List }

// nthEnd counts the ends of a task. It adds 1 because a task that was cancelled
// before its first run has ended as well.
func nthEnd(s TaskStatus) int { return s.Runs + 1 }

// add records the end of a task, unless the model knows of it.
func (n *taskNotices) add(s TaskStatus) { n.list.Add(s.ID, nthEnd(s), noticeOf(s)) }

// known records that the model learns the status now, other than by a notice,
// and reports whether the end of the task is news to it.
func (n *taskNotices) known(s TaskStatus) (news bool) {
	return s.State.AtRest() && n.list.Known(s.ID, nthEnd(s))
}

// news reports whether a task rests without the model knowing of it.
func (n *taskNotices) news(s TaskStatus) bool {
	return s.State.AtRest() && n.list.News(s.ID, nthEnd(s))
}

// take returns the notices for the model and forgets them; the text may be
// empty.
func (n *taskNotices) take() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf describes how a task ended.
func noticeOf(s TaskStatus) string {
	about := indented(lastWords(s))
	if about != "" {
		about = ": " + about
	}
	return fmt.Sprintf("[task %s %s%s]", s.ID, s, about)
}

// lastWords is the final text of a task at rest: its answer, its question, or what
// it left.
func lastWords(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return cut.Middle(strings.Join(append([]string{q.Prompt}, q.Options...), " | "), noticedSummary) + " (" + sayHowToAnswer + ")"
	}
	words := cut.Middle(s.Summary(), noticedSummary)
	if s.Left != nil {
		words = strings.TrimPrefix(words+"\n"+s.Left.words(), "\n")
	}
	return words
}

// TaskInfo is what an agent that works on a task is told about it, besides the
// prompt of the task.
type TaskInfo struct {
	// From is the name of the persona of the agent that delegated the task, or empty
	// if a program started it.
	From string
	// OwnWorkspace says that no other agent works in the workspace.
	OwnWorkspace bool
	// Files are the first of the files and directories that were copied into the
	// workspace, and MoreFiles is how many others were.
	Files     []string
	MoreFiles int
	// MaxTime and StepTimeout are the limits of the task and of each of its steps;
	// 0 is none.
	MaxTime, StepTimeout time.Duration
}

// maxCopied is how many of the files copied into a task's workspace its agent is
// told of, and maxCopiedName how many bytes of each name.
const (
	maxCopied     = 20
	maxCopiedName = 200
)

// info is what the agent of the task is told about it.
func (s TaskSpec) info() *TaskInfo {
	info := &TaskInfo{From: s.From, MaxTime: s.Limits.MaxTime, StepTimeout: s.Limits.StepTimeout}
	for _, d := range []*time.Duration{&info.MaxTime, &info.StepTimeout} {
		*d = max(*d, 0) // NoLimit is below
	}
	info.Files = slices.Clone(s.Copied[:min(len(s.Copied), maxCopied)])
	info.MoreFiles = len(s.Copied) - len(info.Files)
	return info
}

// from is the name by which a task's agent knows who delegates it.
func (r *taskLinks) from() string {
	if r.agent == nil {
		return ""
	}
	return r.agent.Persona().Name
}

// task says that the agent works for another one, and under which conditions.
func (p *prompt) task() {
	t := p.info.Task
	if t == nil {
		return
	}
	p.section("A subtask")
	giver := "A program gave you this task"
	if t.From != "" {
		giver = fmt.Sprintf("The agent %s gave you this task, as a part of its own", onOneLine(t.From))
	}
	p.line("- %s: what you hear comes from there. Nobody watches, and of all you say and find only your answer at the end is handed back.", giver)
	if line := t.workspace(); line != "" && len(p.info.Tools) > 0 {
		p.line("- %s", line)
	}
	var limits []string
	if t.MaxTime > 0 {
		limits = append(limits, seconds(t.MaxTime)+" in all")
	}
	if t.StepTimeout > 0 {
		limits = append(limits, seconds(t.StepTimeout)+" for each step")
	}
	if len(limits) > 0 {
		p.line("- You have at most %s, commands included.", strings.Join(limits, " and "))
	}
}

// workspace says whose the workspace is, and what was copied into it.
func (t *TaskInfo) workspace() string {
	var says []string
	if t.OwnWorkspace {
		says = append(says, "Your workspace is your own; the files you make stay there, and are fetched by their paths.")
	}
	if len(t.Files) > 0 {
		names := make([]string, len(t.Files))
		for i, name := range t.Files {
			names[i] = onOneLine(name)
		}
		if t.MoreFiles > 0 {
			names = append(names, fmt.Sprintf("and %d more", t.MoreFiles))
		}
		says = append(says, "Copied into it: "+strings.Join(names, ", ")+".")
	}
	return strings.Join(says, " ")
}

// endingOfTask says how a task ends.
func (p *prompt) endingOfTask() {
	whom := "the agent that gave you the task"
	if p.info.Task.From == "" {
		whom = "whoever gave you the task"
	}
	if p.has("stop") {
		p.line("- When the work is done and verified, or cannot be done, call `stop` with all that %s needs as summary: what you found or did, the paths of the files you made, what you checked, what is open.", whom)
	}
	if p.has("continue") {
		p.line("- When you cannot go on without an answer, call `continue` with one precise question, which goes to %s. Decide the rest yourself.", whom)
	}
}

// seconds formats a time limit in the way models read best.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%g seconds", d.Round(time.Millisecond).Seconds())
}
