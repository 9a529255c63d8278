package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/notices"
)

// Bounds of the delegation tools.
const (
	// maxTaskWait is the longest that task_status waits.
	maxTaskWait = 10 * time.Minute
	// shownPrompt is how much of its prompt a list of tasks repeats.
	shownPrompt = 80
	// noticedSummary is how many bytes of a task's summary a notice repeats.
	noticedSummary = 2000
)

// delegationTools are the tools with which an agent delegates tasks. They work
// only in a run of an agent, which they find in the context of the call.
func delegationTools() []Tool {
	tools := []Tool{
		builtin("delegate_task", ToolOther, "Start a background agent with a workspace of its own on a task, and return the task's id at once. It knows nothing of this conversation: say in the prompt all that it needs, and name the files to copy into its workspace. You are told when it ends; get its files with collect_file.", delegateTask),
		builtin("delegate_persona_task", ToolOther, "Like delegate_task, with the persona of your choice; list_personas names them.", delegatePersonaTask),
		builtin("list_personas", ToolRead, "List the personas that tasks can be delegated to.", listPersonas),
		builtin("task_status", ToolRead, "Tell the status of a delegated task, or of all of them, and the answer of a task that is done. To wait for a task, give wait instead of asking again and again.", tellTaskStatus),
		builtin("collect_file", ToolEdit, "Copy a file or directory of a delegated task's workspace into yours.", collectFile),
		builtin("cancel_task", ToolOther, "Cancel a delegated task that is not needed any more.", cancelTask),
	}
	for i, t := range tools {
		tools[i].polls = t.Name == "task_status"
		tools[i].delegates = true
		// A repeated delegation finds the task that it started.
		tools[i].Idempotent = true
	}
	return tools
}

// mayDelegate reports whether the agent can have tasks: it is not as deep as
// agents may be already, and its runtime can make another of its kind, or the
// manager's options give one. Otherwise the delegation tools are of no use.
func (a *Agent) mayDelegate() bool {
	if rules := a.opts.rules; rules.MaxDepth != 0 && a.opts.depth >= limitOr(rules.MaxDepth, 0) {
		return false
	}
	if a.tasks.bringsRuntime() {
		return true
	}
	_, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	_, makes := RuntimeAs[TaskRuntimeMaker](a.runtime)
	return ours || makes
}

// on returns the tool as the agent can use it in a runtime.
func (r *Registry) on(t Tool, rt Runtime) (_ Tool, err error) {
	if t.delegates && r.noTasks {
		return t, fmt.Errorf("%w: no tasks can be made here; do the work yourself", ErrToolDisabled)
	}
	t, ok := t.on(rt)
	if !ok {
		return t, fmt.Errorf("%w: this runtime cannot serve it", ErrToolDisabled)
	}
	if t.skills {
		return r.withSkills(t)
	}
	return t, nil
}

// delegating returns the current tool call, and the manager of the agent that
// made it.
func delegating(ctx context.Context) (*callContext, *TaskManager, error) {
	call := toolCallOf(ctx)
	if call == nil {
		return nil, nil, errors.New("this tool works in a run of an agent only: there is no agent here whose tasks they would be")
	}
	return call, call.agent.Tasks(), nil
}

type delegateInput struct {
	Prompt      string   `json:"prompt" jsonschema:"the task: everything the other agent has to know"`
	Files       []string `json:"files,omitempty" jsonschema:"files and directories of your workspace to copy; they keep their paths"`
	Timeout     float64  `json:"timeout,omitempty" jsonschema:"time limit of the task in seconds, if not the usual one"`
	StepTimeout float64  `json:"step_timeout,omitempty" jsonschema:"time limit of each of its steps in seconds, if not the usual one"`
	Persona     string   `json:"persona,omitempty" jsonschema:"who works on it; by default they take turns"`
}

type delegatePersonaInput struct {
	Persona     string   `json:"persona" jsonschema:"who works on it"`
	Prompt      string   `json:"prompt" jsonschema:"the task: everything the other agent has to know"`
	Files       []string `json:"files,omitempty" jsonschema:"files and directories of your workspace to copy; they keep their paths"`
	Timeout     float64  `json:"timeout,omitempty" jsonschema:"time limit of the task in seconds, if not the usual one"`
	StepTimeout float64  `json:"step_timeout,omitempty" jsonschema:"time limit of each of its steps in seconds, if not the usual one"`
}

func delegatePersonaTask(ctx context.Context, rt Runtime, in delegatePersonaInput) (*ToolResult, error) {
	if in.Persona == "" {
		return nil, errors.New("persona is empty; list_personas names them")
	}
	return delegateTask(ctx, rt, delegateInput{
		Prompt:      in.Prompt,
		Files:       in.Files,
		Timeout:     in.Timeout,
		StepTimeout: in.StepTimeout,
		Persona:     in.Persona,
	})
}

func delegateTask(ctx context.Context, rt Runtime, in delegateInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return nil, errors.New("prompt is empty")
	}
	if in.Timeout < 0 || in.StepTimeout < 0 {
		return nil, errors.New("a time limit is negative")
	}
	id, err := tasks.StartTask(ctx, in.Prompt, rt,
		WithTaskCall(ctx),
		WithTaskID(call.taskID()),
		WithTaskFiles(in.Files...),
		WithTaskPersonaName(in.Persona),
		WithTaskLimits(Limits{MaxTime: secondsOf(in.Timeout), StepTimeout: secondsOf(in.StepTimeout)}))
	switch {
	case errors.Is(err, ErrTaskDepth):
		return nil, fmt.Errorf("%w; do the work yourself", err)
	case errors.Is(err, ErrTooManyTasks):
		return nil, fmt.Errorf("%w; wait for one with task_status, or do the work yourself", err)
	case err != nil:
		return nil, err
	}
	status, err := tasks.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	who := ""
	if status.Persona.Name != "" {
		who = " with " + status.Persona.Name
	}
	return &ToolResult{Content: fmt.Sprintf("started task %s%s", id, who)}, nil
}

// secondsOf converts a number of seconds into a duration without overflow. It
// does not round a small positive number down to 0, which would mean the
// default.
func secondsOf(n float64) time.Duration {
	if n > 0 {
		return max(1, time.Duration(min(n, 1e6)*float64(time.Second)))
	}
	return 0
}

func listPersonas(ctx context.Context, _ Runtime, _ struct{}) (*ToolResult, error) {
	_, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	personas := tasks.Personas()
	if len(personas) == 0 {
		return &ToolResult{Content: "there are no personas to choose from; delegate_task needs none"}, nil
	}
	lines := make([]string, len(personas))
	for i, p := range personas {
		lines[i] = "- " + p.Name
		if p.Description != "" {
			lines[i] += ": " + p.Description
		}
	}
	return &ToolResult{Content: strings.Join(lines, "\n")}, nil
}

type taskStatusInput struct {
	TaskID string  `json:"task_id,omitempty" jsonschema:"the task; default all of yours"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"wait up to this many seconds for the task to end, or, without task_id, for the next one to end; at most 600"`
}

func tellTaskStatus(ctx context.Context, _ Runtime, in taskStatusInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	mine, err := tasksOf(ctx, tasks, call.agent, in.TaskID)
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return &ToolResult{Content: "you have delegated no tasks"}, nil
	}
	if wait := min(secondsOf(in.Wait), maxTaskWait); wait > 0 {
		waitForNext(ctx, tasks, mine, wait)
		if mine, err = tasksOf(ctx, tasks, call.agent, in.TaskID); err != nil {
			return nil, err
		}
	}
	lines := make([]string, len(mine))
	for i, s := range mine {
		news := call.agent.notices.known(s)
		if in.TaskID != "" {
			lines[i] = describeTask(s)
			continue
		}
		lines[i] = listedTask(s)
		if words := lastWords(s); news && words != "" {
			lines[i] += "\n  " + words // no notice follows
		}
	}
	return &ToolResult{Content: strings.Join(lines, "\n")}, nil
}

// tasksOf returns the tasks that an agent delegated: one, or all. Tasks of
// other agents are not visible to it.
func tasksOf(ctx context.Context, tasks *TaskManager, agent *Agent, id string) ([]TaskStatus, error) {
	if id != "" {
		s, err := tasks.Status(ctx, id)
		if err == nil && s.Parent != agent.id {
			err = taskError(id, ErrUnknownTask)
		}
		if errors.Is(err, ErrUnknownTask) {
			err = fmt.Errorf("%w; task_status without task_id lists those there are", err)
		}
		return []TaskStatus{s}, err
	}
	return tasks.Tasks(ctx, TaskFilter{Parent: agent.id})
}

// waitForNext waits until one of the tasks at work rests, but not longer than
// wait.
func waitForNext(ctx context.Context, tasks *TaskManager, of []TaskStatus, wait time.Duration) {
	var open []string
	for _, s := range of {
		if !s.State.AtRest() {
			open = append(open, s.ID)
		}
	}
	if len(open) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// An error does not matter here: the caller asks for the status next.
	_, _ = tasks.WaitAny(ctx, open...)
}

// sayCannotAnswer tells a model what to do about a task's question that it
// cannot answer.
const sayCannotAnswer = "you have no tool to answer it: unless the user does, delegate it anew with the answer in the prompt"

// describeTask returns the details of a task for a model, beginning with the
// state.
func describeTask(s TaskStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n[%s]", s, taskFigures(s))
	if q := s.Question(); q != nil {
		fmt.Fprintf(&b, "\nIt asks: %s\n(%s)", strings.Join(append([]string{q.Prompt}, q.Options...), "\n- "), sayCannotAnswer)
	}
	if text := s.Summary(); text != "" {
		b.WriteString("\n" + text)
	}
	return b.String()
}

// listedTask is a task in one line.
func listedTask(s TaskStatus) string {
	prompt, _, _ := strings.Cut(s.Prompt, "\n")
	return fmt.Sprintf("%s: %s [%s] %s", s.ID, s, taskFigures(s), cut.Head(prompt, shownPrompt))
}

func taskFigures(s TaskStatus) string {
	figures := fmt.Sprintf("%d steps, %d tool calls, %s", s.Steps, s.ToolCalls, s.Elapsed(time.Now()).Round(time.Second))
	if s.Persona.Name != "" {
		figures = s.Persona.Name + ", " + figures
	}
	return figures
}

type collectInput struct {
	TaskID string `json:"task_id" jsonschema:"the task"`
	Path   string `json:"path" jsonschema:"a file or directory, relative to the task's workspace"`
	Dest   string `json:"dest,omitempty" jsonschema:"where it goes in your workspace; default the same path"`
}

func collectFile(ctx context.Context, rt Runtime, in collectInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	if in.Path == "" {
		return nil, errors.New("path is empty")
	}
	if _, err := ownTask(ctx, tasks, call.agent, in.TaskID); err != nil {
		return nil, err
	}
	c, err := tasks.CollectFile(ctx, rt, in.TaskID, in.Path, in.Dest)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("copied %s of task %s to %s", in.Path, in.TaskID, c.Path)
	if s, err := tasks.Status(ctx, in.TaskID); err == nil && !s.State.AtRest() {
		text += "; the task is still " + s.String() + ", so this may not be its last state"
	}
	return &ToolResult{Content: text}, nil
}

type cancelInput struct {
	TaskID string `json:"task_id" jsonschema:"the task"`
}

func cancelTask(ctx context.Context, _ Runtime, in cancelInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	s, err := ownTask(ctx, tasks, call.agent, in.TaskID)
	switch {
	case err != nil:
		return nil, err
	case s.State.AtRest() && s.State != TaskAwaitingUser:
		return &ToolResult{Content: fmt.Sprintf("task %s has ended already: %s", s.ID, s)}, nil
	}
	if err := tasks.cancel(ctx, s.ID, "its parent cancelled it"); err != nil {
		return nil, err
	}
	if s, err = tasks.Status(ctx, s.ID); err != nil {
		return nil, err
	}
	if s.State.AtRest() {
		return &ToolResult{Content: fmt.Sprintf("task %s: %s", s.ID, s)}, nil
	}
	return &ToolResult{Content: "asked task " + s.ID + " to end"}, nil
}

// ownTask returns a task that the agent delegated.
func ownTask(ctx context.Context, tasks *TaskManager, agent *Agent, id string) (TaskStatus, error) {
	if id == "" {
		return TaskStatus{}, errors.New("task_id is empty; task_status lists the tasks there are")
	}
	mine, err := tasksOf(ctx, tasks, agent, id)
	if err != nil {
		return TaskStatus{}, err
	}
	return mine[0], nil
}

// id is the id of the call, as its model chose it.
func (c *callContext) id() string { return c.info.Call.ID }

// taskID derives the id of the task that the call delegates, such that a
// resumed run derives the same id again. It counts only the model's messages,
// because the number of user messages between them depends on timing.
func (c *callContext) taskID() string {
	nth := 0
	for _, m := range c.agent.history.view()[:c.message] {
		if m.Role == RoleAssistant {
			nth++
		}
	}
	return shortHash(fmt.Sprintf("%s/%d/%d", c.agent.id, nth, c.index))
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

// take returns the notices for the model and forgets them; the text may be
// empty.
func (n *taskNotices) take() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf describes how a task ended.
func noticeOf(s TaskStatus) string {
	about := lastWords(s)
	if about != "" {
		about = ": " + about
	}
	return fmt.Sprintf("[task %s %s%s]", s.ID, s, about)
}

// lastWords is the final text of a task at rest: its answer, or its question.
func lastWords(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return cut.Middle(strings.Join(append([]string{q.Prompt}, q.Options...), " | "), noticedSummary) + " (" + sayCannotAnswer + ")"
	}
	return cut.Middle(s.Summary(), noticedSummary)
}
