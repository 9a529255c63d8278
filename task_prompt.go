package pygent

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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
