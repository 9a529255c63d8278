package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/stash"
	"github.com/x/pygent/internal/taskpool"
	"github.com/x/pygent/internal/toolschema"
)

// Bounds of the delegation tools.
const (
	// maxTaskWait is the longest that task_status waits.
	maxTaskWait = 10 * time.Minute
	// shownPrompt is how much of its prompt a list of tasks repeats.
	shownPrompt = 80
	// delegated begins the result of a call that delegates; the task's id follows.
	delegated = "started task "
	// noticedSummary is how many bytes of a task's summary a notice repeats.
	noticedSummary = 2000
)

// delegationTools are the tools with which an agent delegates tasks. They work
// only in a run of an agent, which they find in the context of the call.
func delegationTools() []Tool {
	tools := []Tool{
		builtin("delegate_task", ToolOther, "Start a background agent with a workspace of its own on a task; returns the task's id at once. It knows nothing of this conversation: the prompt must say all it needs, and files name what is copied to it. You are told when it ends or asks; fetch its files with collect_file.", delegateTask),
		builtin("delegate_persona_task", ToolOther, "delegate_task with the persona of your choice.", delegatePersonaTask),
		builtin("list_personas", ToolRead, "Describe the personas.", listPersonas),
		builtin("task_status", ToolRead, "Tell how a delegated task, or each, is doing: its question, or its answer once it has ended. Give wait instead of asking again and again.", showTaskStatus),
		builtin("send_task", ToolOther, "Answer a delegated task's question, or give it further instructions while it works.", sendTask),
		builtin("collect_file", ToolEdit, "Copy a file or directory of a delegated task's workspace into yours; of a directory, without .git and caches such as node_modules.", collectFile),
		builtin("cancel_task", ToolOther, "End a delegated task that is not needed any more.", cancelTask),
	}
	for i, t := range tools {
		tools[i].polls = t.Name == "task_status"
		tools[i].delegation = delegationOf(t.Name)
		// A repeated delegation finds the task that it started, and a repeated
		// message has the id of the first.
		tools[i].Idempotent = true
	}
	return tools
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
	Prompt      string   `json:"prompt"`
	Files       []string `json:"files,omitempty" jsonschema:"files and directories of your workspace; they keep their paths"`
	Timeout     float64  `json:"timeout,omitempty" jsonschema:"its time limit in seconds"`
	StepTimeout float64  `json:"step_timeout,omitempty" jsonschema:"time limit of each step in seconds"`
	Persona     string   `json:"persona,omitempty" jsonschema:"who works on it; default in turn"`
}

type delegatePersonaInput struct {
	Persona     string   `json:"persona"`
	Prompt      string   `json:"prompt"`
	Files       []string `json:"files,omitempty"`
	Timeout     float64  `json:"timeout,omitempty"`
	StepTimeout float64  `json:"step_timeout,omitempty"`
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
	return &ToolResult{Content: fmt.Sprintf(delegated+"%s%s%s", id, who, shorterTime(call, tasks, in))}, nil
}

// shorterTime says that a task has less time than it was meant to have, because
// the run that delegates it ends before.
func shorterTime(call *callContext, tasks *TaskManager, in delegateInput) string {
	if call.budget.Deadline.IsZero() {
		return ""
	}
	meant := cmp.Or(secondsOf(in.Timeout), tasks.opts.limits.MaxTime, DefaultTaskMaxTime)
	left := max(time.Until(call.budget.Deadline), 0)
	if meant != NoLimit && left >= meant {
		return ""
	}
	return fmt.Sprintf("\n[it gets %s, no more is left of your own time]", left.Round(time.Second))
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
	TaskID string  `json:"task_id,omitempty" jsonschema:"default all of yours"`
	Wait   float64 `json:"wait,omitempty" jsonschema:"seconds to wait, at most 600, until it ends or asks; without task_id, until one does"`
}

func showTaskStatus(ctx context.Context, _ Runtime, in taskStatusInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	mine, err := tasksOf(ctx, tasks, call.agent, in.TaskID)
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return &ToolResult{Content: cmp.Or(lostTask(call.agent.history.ActiveMessages(), ""), "you have delegated no tasks")}, nil
	}
	// A model that has not heard yet that a task rests waits for nothing more.
	if wait := min(secondsOf(in.Wait), maxTaskWait); wait > 0 && !slices.ContainsFunc(mine, call.agent.notices.news) {
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
		lines[i] = listedTask(s, news) // no notice follows
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
			err = fmt.Errorf("%w; %s", err, cmp.Or(lostTask(agent.history.ActiveMessages(), id), "task_status without task_id lists those there are"))
		}
		return []TaskStatus{s}, err
	}
	return tasks.Tasks(ctx, TaskFilter{Parent: agent.id})
}

// lostTask says that a task which a conversation began is gone, or that all are if
// id is empty: tasks end with their process. It is empty if there was none.
func lostTask(conversation []Message, id string) string {
	for _, m := range conversation {
		if m.Role != chat.RoleTool {
			continue
		}
		began, ok := strings.CutPrefix(m.Text(), delegated)
		if words := strings.Fields(cut.Head(began, shownPrompt)); ok && len(words) > 0 && (id == "" || words[0] == id) {
			return "what you delegated is gone with its files, because the program was started anew or removed it; delegate again what is still needed"
		}
	}
	return ""
}

// waitForNext waits until one of the tasks at work rests or asks its parent, but not
// longer than wait.
func waitForNext(ctx context.Context, tasks *TaskManager, of []TaskStatus, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	next := make(chan struct{}, len(of))
	open := 0
	for _, s := range of {
		if !s.State.AtRest() && !s.asksParent() {
			open++
			wg.Go(func() {
				tasks.awaitNews(ctx, s)
				next <- struct{}{}
			})
		}
	}
	if open > 0 {
		<-next
	}
}

type sendInput struct {
	TaskID  string `json:"task_id"`
	Message string `json:"message" jsonschema:"an answer may be one of the options, or its number"`
}

func sendTask(ctx context.Context, _ Runtime, in sendInput) (*ToolResult, error) {
	call, tasks, err := delegating(ctx)
	if err != nil {
		return nil, err
	}
	s, err := ownTask(ctx, tasks, call.agent, in.TaskID)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(in.Message) == "":
		return nil, errors.New("message is empty")
	case s.State.AtRest() && s.State != TaskAwaitingUser:
		return nil, fmt.Errorf("task %s has ended (%s) and hears nothing any more: fetch what it made with collect_file, and delegate the rest anew", s.ID, s)
	}
	if q := s.asks(); q != nil && call.agent.notices.known(s) {
		return nil, fmt.Errorf("nothing was sent: task %s asks meanwhile: %s", s.ID, taskpool.Indented(q.words()))
	}
	if s.asksParent() {
		return answerTask(ctx, call, tasks, s, in.Message)
	}
	text, said := in.Message, "before its next step"
	if q := s.Question(); q != nil {
		text, said = q.chosen(in.Message)
	} else if waits := s.waitsForUser(); waits != "" {
		said += "; " + waits
	}
	_, err = tasks.Send(ctx, s.ID, text, WithMessageID(call.sendID()), WithNextStep())
	switch {
	case errors.Is(err, ErrTooManyTasks):
		return nil, fmt.Errorf("%w; wait for another one with task_status, then send it again", err)
	case errors.Is(err, taskpool.ErrStopping):
		return nil, fmt.Errorf("%w and hears nothing any more; delegate anew what is still needed", err)
	case err != nil:
		return nil, err
	case s.State == TaskAwaitingUser:
		return &ToolResult{Content: fmt.Sprintf("answered task %s%s; it goes on", s.ID, said)}, nil
	case s.State == TaskQueued:
		said = "when it begins"
	}
	return &ToolResult{Content: fmt.Sprintf("task %s hears it %s", s.ID, said)}, nil
}

// answerTask answers the question of a task's tool.
func answerTask(ctx context.Context, call *callContext, tasks *TaskManager, s TaskStatus, message string) (*ToolResult, error) {
	q := s.Asked.Request.Question
	answer, err := q.ParseAnswer(message)
	if err != nil {
		return nil, fmt.Errorf("%w; task %s still asks", err, s.ID)
	}
	answer.By = byParent
	switch err = tasks.answer(ctx, s.ID, call.sendID(), *s.Asked, answer); {
	case errors.Is(err, ErrNotAsked):
		return nil, fmt.Errorf("task %s does not wait for this answer any more: see task_status", s.ID)
	case err != nil:
		return nil, err
	}
	_, said := q.chosen(message)
	if answer.Declined {
		said = ": declined"
	}
	return &ToolResult{Content: fmt.Sprintf("answered task %s%s; it goes on", s.ID, said)}, nil
}

type collectInput struct {
	TaskID string `json:"task_id"`
	Path   string `json:"path" jsonschema:"relative to the task's workspace"`
	Dest   string `json:"dest,omitempty" jsonschema:"default the same path"`
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
	var left stash.LeftOut
	c, err := tasks.collect(ctx, rt, in.TaskID, in.Path, in.Dest, &left)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("copied %s of task %s to %s: %s", in.Path, in.TaskID, c.Path, stash.Copied{Files: c.Files, Replaced: c.Replaced, Bytes: c.Bytes}.Words())
	if words := left.Words(); words != "" {
		text += "; left out: " + words + ", copied only if named as path"
	}
	if s, err := tasks.Status(ctx, in.TaskID); err == nil && !s.State.AtRest() {
		text += "; the task is still " + s.String() + ", so this may not be its last state"
	}
	return &ToolResult{Content: text}, nil
}

type cancelInput struct {
	TaskID string `json:"task_id"`
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

// id is the id of the call, as its model chose it; empty for no call.
func (c *callContext) id() string {
	if c == nil {
		return ""
	}
	return c.info.Call.ID
}

// taskID derives the id of the task that the call delegates, such that a
// resumed run derives the same id again. It counts only the model's messages,
// because the number of user messages between them depends on timing.
func (c *callContext) taskID() string {
	nth, left := 0, c.message
	for _, e := range c.agent.history.AllEntries() {
		if e.IsMark() {
			continue
		}
		if left--; left < 0 {
			break
		}
		if e.Message.Role == chat.RoleAssistant {
			nth++
		}
	}
	return owner.IDOf(fmt.Sprintf("%s/%d/%d", c.agent.id, nth, c.index))
}

// sendID names the message that the call sends, such that a resumed run sends it
// once.
func (c *callContext) sendID() string { return "sent-" + c.taskID() }

// delegation is what a tool has to do with tasks.
type delegation int

const (
	noDelegation  delegation = iota
	startsTasks              // of use where tasks can be made
	namesPersonas            // of use where there are personas besides
	ofStarted                // of use where tasks can be made, or a program has started some
)

func delegationOf(tool string) delegation {
	switch tool {
	case "delegate_task":
		return startsTasks
	case "delegate_persona_task", "list_personas":
		return namesPersonas
	}
	return ofStarted
}

// taskTools is what a registry knows of its agent's tasks.
type taskTools struct {
	none     bool                          // the agent cannot delegate; set before its first run
	personas int                           // how many there are; set before the first run
	offered  map[string]*toolschema.Schema // schemas that name them, by tool; set before the first run
	started  bool                          // a program has started a task of the agent; guarded by the registry's mu
}

// maxPersonaNames is how many bytes of names the schema of a tool lists. Of more
// personas a model learns by list_personas only.
const maxPersonaNames = 1 << 10

// newTaskTools fits the delegation tools to an agent: to the personas there are, and to
// whether it may delegate.
func newTaskTools(personas []Persona, mayDelegate bool) taskTools {
	tools := taskTools{none: !mayDelegate, personas: len(personas)}
	var names []string
	bytes := 0
	for _, p := range personas {
		if p.Name != "" && !slices.Contains(names, p.Name) {
			names, bytes = append(names, p.Name), bytes+len(p.Name)
		}
	}
	if bytes <= maxPersonaNames {
		tools.offered = map[string]*toolschema.Schema{}
		for name, t := range builtinTools() {
			if name != "delegate_task" && (name != "delegate_persona_task" || len(names) == 0) {
				continue
			}
			// It fails for names that have no JSON, which then are not listed.
			if schema, err := t.schema.Offered("persona", names); err == nil {
				tools.offered[name] = schema
			}
		}
	}
	return tools
}

// markStarted notes that the agent has a task, so that the model is given the
// tools for it even if it cannot delegate.
func (r *Registry) markStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks.none && !r.tasks.started {
		r.tasks.started = true
		r.version++
	}
}

// on returns the tool as the agent can use it in a runtime.
func (r *Registry) on(t Tool, rt Runtime) (_ Tool, err error) {
	switch {
	case t.Unoffered != "":
		return t, fmt.Errorf("%w: %s", ErrToolDisabled, t.Unoffered)
	case t.delegation == noDelegation:
	case r.tasks.none && (t.delegation != ofStarted || !r.hasStarted()):
		return t, fmt.Errorf("%w: no tasks can be made here; do the work yourself", ErrToolDisabled)
	case r.tasks.offered[t.Name] != nil && t.isBuiltin():
		t.schema = r.tasks.offered[t.Name]
	}
	t, ok := t.on(rt)
	if !ok {
		return t, fmt.Errorf("%w: this runtime cannot serve it", ErrToolDisabled)
	}
	return t, nil
}

// offered returns the tool as a model is given it. ok is false if it is not: it
// cannot work, or there are no personas to name, which a call of it would tell.
func (r *Registry) offered(t Tool, rt Runtime) (_ Tool, ok bool) {
	if t.delegation == namesPersonas && r.tasks.personas == 0 {
		return t, false
	}
	t, err := r.on(t, rt)
	return t, err == nil
}

// WhyUnoffered says for a person why a model is not offered a tool in a runtime, and
// what would change that. It is empty for a tool that is offered and for one that is
// disabled or not known.
func (r *Registry) WhyUnoffered(name string, rt Runtime) string {
	r.mu.RLock()
	t, ok := r.tools[name]
	disabled := r.disabled[name]
	r.mu.RUnlock()
	if !ok || disabled {
		return ""
	}
	if _, offered := r.offered(t, rt); offered {
		return ""
	}
	switch {
	case t.Unoffered != "":
		return t.Unoffered
	case t.delegation != noDelegation && r.tasks.none:
		return "no tasks can be made here: the agent is as deep as tasks may be"
	case t.delegation == namesPersonas && r.tasks.personas == 0:
		return "there are no personas to delegate to; task_personas in a configuration file or PYGENT_TASK_PERSONAS adds some"
	}
	return "the runtime cannot serve it; another runtime may, such as a Docker container"
}

func (r *Registry) hasStarted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tasks.started
}
