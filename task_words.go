package pygent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/form"
	"github.com/x/pygent/internal/notices"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/presence"
)

// Bounds of a task's question for a model, in bytes.
const (
	maxAskedPrompt  = 2000
	maxAskedOptions = 2000
)

// asks returns the question that waits for an answer of the agent that delegated the
// task, or nil: its agent asked it at its end, or one of its tools.
func (s TaskStatus) asks() *Question {
	if s.asksParent() {
		return &s.Asked.Request.Question
	}
	return s.Question()
}

// asksParent reports whether a tool of a task at work asks the model of the agent
// that delegated the task.
func (s TaskStatus) asksParent() bool { return s.Asked != nil && s.Asked.Request.Question.AsksParent }

// words is a question for a model that answers it by send_task: what is asked and
// what there is to choose, each further line indented, and how to answer.
func (q *Question) words() string {
	text, how := plain.Clean(notices.Lines(cut.Middle(q.Prompt, maxAskedPrompt))), "(answer with send_task"
	size := 0
	for i, option := range q.Options {
		line := fmt.Sprintf("\n%d. %s", i+1, onOneLine(plain.Clean(cut.Head(option, maxAskedOptions))))
		if size += len(line); size > maxAskedOptions {
			text += "\nand " + numeral.Count(len(q.Options)-i, "more option")
			break
		}
		text += line
	}
	if f, err := form.Parse(q.Schema); err == nil && f != nil {
		for _, line := range f.Lines() {
			text += "\n- " + plain.Clean(line)
		}
		how += `: as message a JSON object of these fields, or "decline"`
	}
	if text = notices.Indented(text); strings.Contains(text, "\n") {
		return text + "\n" + how + ")"
	}
	return text + " " + how + ")"
}

// waitsForUser says what of the task the user decides or answers, or is empty.
func (s TaskStatus) waitsForUser() string {
	switch {
	case len(s.Approvals) > 0:
		return "it waits for the user's permission: " + plainLine(cmp.Or(s.Approvals[0].Request.Tool.Summary, s.Approvals[0].Request.Call.Name))
	case s.Asked != nil && !s.asksParent():
		return "it waits for the user's answer: " + plainLine(s.Asked.Request.Question.Prompt)
	}
	return ""
}

// describeTask returns the details of a task for a model, beginning with the
// state.
func describeTask(s TaskStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n[%s]", s, taskFigures(s))
	if q := s.asks(); q != nil {
		b.WriteString("\nIt asks: " + q.words())
	} else if waits := s.waitsForUser(); waits != "" {
		b.WriteString("\n" + waits)
	}
	if text := s.Summary(); text != "" {
		b.WriteString("\n  " + notices.Indented(text))
	}
	if s.Left != nil {
		b.WriteString("\n  " + notices.Indented(s.Left.words()))
	}
	return b.String()
}

// listedTask is a task among others: a line, with what it asks or, if that is
// news, what it said last.
func listedTask(s TaskStatus, news bool) string {
	prompt, _, _ := strings.Cut(s.Prompt, "\n")
	line := fmt.Sprintf("%s: %s [%s] %s", s.ID, s, taskFigures(s), cut.Head(prompt, shownPrompt))
	words := lastWords(s)
	if words == "" || !news && s.asks() == nil && s.waitsForUser() == "" {
		return line
	}
	return line + "\n  " + notices.Indented(words)
}

// openTask says in a line that a task is still at work, or what it asks.
func openTask(s TaskStatus) string {
	if q := s.asks(); q != nil {
		return fmt.Sprintf("task %s asks: %s (answer with send_task, or end it with cancel_task)", s.ID, plainLine(q.Prompt))
	}
	return fmt.Sprintf("task %s is %s", s.ID, s.State)
}

func taskFigures(s TaskStatus) string {
	figures := fmt.Sprintf("%s, %s, %s", numeral.Count(s.Steps, "step"), numeral.Count(s.ToolCalls, "tool call"), s.Elapsed(time.Now()).Round(time.Second))
	if s.Persona.Name != "" {
		figures = s.Persona.Name + ", " + figures
	}
	return figures
}

// taskNotices are the ended tasks and their questions that an agent's model has not
// been told about yet, and whether it is there to answer.
type taskNotices struct {
	list    notices.List
	present presence.Presence
}

// nthEnd counts the ends of a task. It adds 1 because a task that was cancelled
// before its first run has ended as well.
func nthEnd(s TaskStatus) int { return s.Runs + 1 }

// add records the end of a task, unless the model knows of it.
func (n *taskNotices) add(s TaskStatus) {
	n.list.Known(questionsOf(s.ID), int(s.Seq)) // what a tool asked before has no answer any more
	n.list.Add(s.ID, nthEnd(s), noticeOf(s))
}

// questionsOf is the name under which the questions of a task's tools are counted. No
// task has it.
func questionsOf(task string) string { return task + "?" }

// noteQuestion records a question of a task's tool, or that it is answered.
func (n *taskNotices) noteQuestion(task string, e Event) {
	switch {
	case e.Type == EventAnswer:
		n.list.Known(questionsOf(task), int(e.Seq))
	case e.Question.AsksParent:
		n.list.Add(questionsOf(task), int(e.Seq), fmt.Sprintf("[task %s asks: %s]", task, notices.Indented(e.Question.words())))
	}
}

// known records that the model learns the status now, other than by a notice,
// and reports whether the end of the task, or its question, is news to it.
func (n *taskNotices) known(s TaskStatus) (news bool) {
	switch {
	case s.asksParent():
		return n.list.Known(questionsOf(s.ID), int(s.Asked.Seq))
	case s.State.AtRest():
		return n.list.Known(s.ID, nthEnd(s))
	}
	return false
}

// news reports whether a task rests, or asks, without the model knowing of it.
func (n *taskNotices) news(s TaskStatus) bool {
	switch {
	case s.asksParent():
		return n.list.News(questionsOf(s.ID), int(s.Asked.Seq))
	case s.State.AtRest():
		return n.list.News(s.ID, nthEnd(s))
	}
	return false
}

// take returns the notices for the model and forgets them; the text may be
// empty.
func (n *taskNotices) take() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf describes how a task ended.
func noticeOf(s TaskStatus) string {
	about := notices.Indented(lastWords(s))
	if about != "" {
		about = ": " + about
	}
	return fmt.Sprintf("[task %s %s%s]", s.ID, s, about)
}

// lastWords is the final text of a task at rest: its answer, its question, or what
// it left.
func lastWords(s TaskStatus) string {
	if q := s.asks(); q != nil {
		return q.words()
	}
	if waits := s.waitsForUser(); waits != "" {
		return waits
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
