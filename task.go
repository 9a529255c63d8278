package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/filediff"
	"github.com/x/pygent/internal/form"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/taskpool"
)

// Errors of tasks, to be tested with errors.Is.
var (
	// ErrUnknownTask is returned for an id that no task has.
	ErrUnknownTask = taskpool.ErrUnknown
	// ErrTaskExists is returned when the id is that of a task that another request started.
	ErrTaskExists = errors.New("another task has this id")
	// ErrTooManyTasks is returned when as many tasks run as may run at once.
	ErrTooManyTasks = taskpool.ErrNoRoom
	// ErrTaskDepth is returned when an agent that works on a task tries to
	// delegate and may not.
	ErrTaskDepth = errors.New("an agent that works on a task may not delegate here")
	// ErrNotAsked is returned for a decision about a call, or an answer to one, that
	// does not wait for it: it never did, or somebody was faster, or the question was
	// withdrawn.
	ErrNotAsked = errors.New("the call does not wait for a decision or an answer")
	// ErrTaskBusy is returned when as many messages wait for a task as may.
	ErrTaskBusy = taskpool.ErrMailFull
	// ErrTaskRunning is returned for an operation that requires a task at rest.
	ErrTaskRunning = taskpool.ErrRunning
	// ErrTaskManagerClosed is returned by a manager after Close.
	ErrTaskManagerClosed = taskpool.ErrClosed
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. In the first two the task is at work; in all others it
// is at rest, until a message starts it again.
const (
	TaskQueued       TaskState = "queued"        // waits for room
	TaskRunning      TaskState = "running"       // its agent works
	TaskAwaitingUser TaskState = "awaiting_user" // its agent asked a question
	TaskFinished     TaskState = "finished"      // its agent said it is done
	TaskTimedOut     TaskState = "timed_out"     // a step, or the whole task, took too long
	TaskCancelled    TaskState = "cancelled"     // by Cancel, Close, or the end of its parent
	TaskFailed       TaskState = "failed"        // an error, or a limit other than time
)

// AtRest reports whether the task's state changes only from outside, as by a
// message.
func (s TaskState) AtRest() bool { return s != TaskQueued && s != TaskRunning }

// TaskStatus is the status of a task at one moment. It is a value: later
// changes of the task do not affect it.
type TaskStatus struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // the id of the agent that delegated it
	Root    string    `json:"root,omitempty"`   // the id of the agent at the top, whose task or task's task it is
	Call    string    `json:"call,omitempty"`   // the id of the tool call of the parent that delegated it
	State   TaskState `json:"state"`
	Reason  string    `json:"reason,omitempty"` // the state in words, if there is more to say
	Prompt  string    `json:"prompt"`
	Persona Persona   `json:"persona,omitzero"`
	Depth   int       `json:"depth"` // 1 for a task of an agent that does not work on a task itself

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // of the last run
	Ended   time.Time `json:"ended,omitzero"`   // of the last run; zero while it goes on

	Input     int64         `json:"input,omitempty"`   // the number of the message that the task took up last: see Send; 0 for its prompt
	Waiting   int           `json:"waiting,omitempty"` // how many messages wait until it rests
	Runs      int           `json:"runs"`              // how often it was started, by messages too
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`
	Timeout   time.Duration `json:"-" seconds:"timeout_seconds,omitempty"` // the limit that was reached, when timed out
	Result    *Result       `json:"result,omitempty"`                      // of the last run; nil when it has none
	Left      *TaskLeft     `json:"left,omitempty"`                        // the files that the task changed, and what the last run left that did not finish; nil for neither
	LastEvent *Event        `json:"last_event,omitempty"`
	Seq       int64         `json:"seq"` // the number of the task's last event

	Approvals []PendingApproval `json:"approvals,omitempty"` // the calls that wait for a decision, the oldest first
	Asked     *PendingQuestion  `json:"asked,omitempty"`     // the question of a tool that waits for an answer; nil for none

	err error // of the run that failed
}

// String is the state in words, in one line: "running", "finished", "timeout
// after 30s", "error: no such model".
func (s TaskStatus) String() string {
	switch s.State {
	case TaskTimedOut:
		return "timeout after " + s.Timeout.String()
	case TaskFailed:
		line, _, _ := strings.Cut(taskpool.NoticeLines(s.Reason), "\n")
		return "error: " + line
	case TaskAwaitingUser:
		return "awaiting user"
	}
	return string(s.State)
}

// Question is what the task's agent asks at its end, or nil: [TaskManager.Send]
// answers it. What a tool asks meanwhile is in Asked.
func (s TaskStatus) Question() *Question {
	if s.State != TaskAwaitingUser || s.Result == nil {
		return nil
	}
	return s.Result.Question
}

// Summary is what the task's agent said last, or empty.
func (s TaskStatus) Summary() string {
	if s.Result == nil {
		return ""
	}
	return s.Result.Summary
}

// Elapsed is how long the last run took, or takes until now.
func (s TaskStatus) Elapsed(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return 0
	case s.Ended.IsZero():
		return now.Sub(s.Started)
	}
	return s.Ended.Sub(s.Started)
}

// TaskFilter chooses some of a manager's tasks. Fields that are set apply
// together; the zero value chooses all tasks.
type TaskFilter struct {
	Parent string      `json:"parent,omitempty"` // those that the agent or task with this id delegated
	Root   string      `json:"root,omitempty"`   // those below the agent with this id, at any depth
	States []TaskState `json:"states,omitempty"` // those in one of these states
	After  string      `json:"after,omitempty"`  // those younger than the task with this id, such as the last of the page before
	Limit  int         `json:"limit,omitempty"`  // at most so many; 0 means all
}

// choose applies the filter to tasks that are in the order of their age.
func (f TaskFilter) choose(all []TaskStatus) ([]TaskStatus, error) {
	if f.Limit < 0 {
		return nil, fmt.Errorf("the limit %d is negative", f.Limit)
	}
	if f.After != "" {
		at := slices.IndexFunc(all, func(s TaskStatus) bool { return s.ID == f.After })
		if at < 0 {
			return nil, taskError(f.After, ErrUnknownTask)
		}
		all = all[at+1:]
	}
	all = slices.DeleteFunc(all, func(s TaskStatus) bool {
		return f.Parent != "" && s.Parent != f.Parent || f.Root != "" && s.Root != f.Root ||
			len(f.States) > 0 && !slices.Contains(f.States, s.State)
	})
	if f.Limit > 0 && len(all) > f.Limit {
		all = all[:f.Limit]
	}
	return all, nil
}

// CollectedFile tells what [TaskManager.CollectFile] copied.
type CollectedFile struct {
	Path  string `json:"path"`  // where the copy is in the runtime that got it
	Files int    `json:"files"` // how many files and symbolic links were written
	// Replaced is how many files and symbolic links were there before and are not
	// any more, even if their content is the same. It is -1 for a runtime of the
	// caller's own, which does not tell.
	Replaced int       `json:"replaced"`
	Bytes    int64     `json:"bytes"`          // how much data was copied, without the holes of sparse files
	AsOf     time.Time `json:"as_of"`          // whose state the copy shows; later changes are not in it
	Live     bool      `json:"live,omitempty"` // the task was at work, so the files may have changed meanwhile
}

// errTaskTimeout is the cause of the end of a task's context at its time limit.
var errTaskTimeout = errors.New("the task took too long")

// taskCancelled is the cause of the end of a cancelled task's context.
type taskCancelled struct{ reason string }

// Error says why the task was cancelled.
func (c *taskCancelled) Error() string { return cmp.Or(c.reason, "the task was cancelled") }

// end derives the state from the end of a run: from its result, its limits, the
// cause of its context's end, and its error.
func (s *TaskStatus) end(limits Limits, cause, err error) {
	var cancelled *taskCancelled
	result := cmp.Or(s.Result, &Result{})
	switch {
	case result.Status == StatusStopped || result.Status == StatusReplied:
		s.State, s.Reason = TaskFinished, result.Reason
	case result.Status == StatusAwaitingUser:
		s.State = TaskAwaitingUser
	case errors.Is(cause, errTaskTimeout):
		s.State, s.Timeout = TaskTimedOut, limits.MaxTime
		s.Reason = fmt.Sprintf("the task took longer than %s (MaxTime)", s.Timeout)
	case errors.As(cause, &cancelled):
		s.State, s.Reason = TaskCancelled, cancelled.Error()
	case result.Status == StatusTimeout:
		s.State, s.Timeout, s.Reason = TaskTimedOut, limits.StepTimeout, result.Reason
	case err != nil:
		s.fail(err)
	default:
		s.State, s.Reason = TaskFailed, cmp.Or(result.Reason, string(result.Status))
	}
}

// apply updates the status with the next event of the task. A status is what the
// task's events say, apart from the messages that wait.
func (s *TaskStatus) apply(e Event) {
	s.Seq = e.Seq
	switch e.Type {
	case EventTask:
		last := s.LastEvent
		*s = *e.TaskStatus
		s.LastEvent = last
		return
	case EventText, EventReasoning, EventCallDelta, EventProgress, EventOutput, EventKeeping:
		return
	case EventStep:
		s.Steps++
	case EventToolCall:
		s.ToolCalls++
	case EventMessage:
		if e.Usage != nil {
			s.Usage = s.Usage.Add(*e.Usage)
		}
	case EventApproval:
		s.withdraw(e.Call.ID)
		if e.Approval.AsksManager {
			s.Approvals = append(s.Approvals, PendingApproval{Request: *e.Approval, Seq: e.Seq, Since: e.Time})
		}
	case EventDecision, EventToolDone:
		s.withdraw(e.Call.ID)
	case EventQuestion:
		from := CallInfo{Agent: s.ID, Task: s.ID, Step: e.Step, Call: *e.Call}
		s.Asked = &PendingQuestion{Request: AskRequest{Question: *e.Question, From: from}, Seq: e.Seq, Since: e.Time}
	case EventAnswer:
		s.Asked = nil
	}
	s.LastEvent = &e
}

// cancel sets the state of a cancelled task.
func (s *TaskStatus) cancel(reason string) {
	s.State, s.Reason, s.Ended = TaskCancelled, reason, time.Now()
}

// fail sets the state of a task that an error ended.
func (s *TaskStatus) fail(err error) { s.State, s.Reason, s.err = TaskFailed, err.Error(), err }

// renew begins a further run: it clears what belongs to the one before.
func (s *TaskStatus) renew(state TaskState) {
	s.State, s.Reason, s.Timeout, s.Result, s.Left, s.err = state, "", 0, nil, nil, nil
	s.Started, s.Ended = time.Time{}, time.Time{}
}

// MarshalJSON encodes the timeout in seconds.
func (s TaskStatus) MarshalJSON() ([]byte, error) {
	type plain TaskStatus
	return jsonobj.MarshalSeconds(plain(s))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *TaskStatus) UnmarshalJSON(data []byte) error {
	type plain TaskStatus
	return jsonobj.UnmarshalSeconds(data, (*plain)(s))
}

// TaskOption adjusts one task.
type TaskOption func(*taskOptions)

type taskOptions struct {
	taskRequest
	id      string
	private []TaskProfile // for this task only
	call    *callContext  // the tool call by which an agent delegates the task; nil for none
	err     error         // of an invalid option
}

// taskRequest is the part of a request for a task that can be compared. It
// leaves out functions, models given as values, and the parent's runtime.
type taskRequest struct {
	parent  string // the id of the agent that delegates
	prompt  string
	parts   []Part
	files   []string
	persona *Persona
	name    string // of a persona
	model   string
	profile string
	limits  Limits
	depth   int // how deep the task and those below it may delegate; 0 is the default
	queue   bool
}

// WithTaskID sets the task's id, 1 to 64 letters, digits, dots, dashes or
// underscores. Starting a task again by the same request has no effect; a
// different request with its id is refused with [ErrTaskExists]. Requests are
// the same if parent agent, prompt and options are; functions and models given
// as values cannot be compared and are ignored. Default: a new id; the
// delegation tools derive it from the call.
func WithTaskID(id string) TaskOption { return func(o *taskOptions) { o.id = id } }

// WithTaskCall makes an agent the one that delegates the task: the agent whose
// tool call has the context ctx. The agent is told when the task ends, the
// tokens and the time of its run bound the task, and its own depth counts. The
// delegation tools use this option. A context that does not belong to a tool
// call is an error.
func WithTaskCall(ctx context.Context) TaskOption {
	return func(o *taskOptions) {
		if o.call = toolCallOf(ctx); o.call == nil {
			o.err = errors.New("option WithTaskCall: the context is not that of a tool call")
		}
	}
}

// WithTaskFiles copies files and directories of the parent's workspace into the
// task's, where they have the same paths.
func WithTaskFiles(paths ...string) TaskOption {
	return func(o *taskOptions) { o.files = append(o.files, paths...) }
}

// WithTaskPersona sets who works on the task.
func WithTaskPersona(p Persona) TaskOption { return func(o *taskOptions) { o.persona = &p } }

// WithTaskPersonaName chooses one of the manager's personas. An unknown name is
// an error that lists them.
func WithTaskPersonaName(name string) TaskOption { return func(o *taskOptions) { o.name = name } }

// WithTaskModelName names the model for the task, as the provider calls it.
func WithTaskModelName(name string) TaskOption { return func(o *taskOptions) { o.model = name } }

// WithTaskModel sets the model for the task. Nil leaves it the one that it has without
// this option.
func WithTaskModel(m Model) TaskOption {
	if m == nil {
		return nil
	}
	return WithTaskProfile(func(context.Context, TaskSpec) ([]Option, error) {
		return []Option{WithModel(m)}, nil
	})
}

// WithTaskProfile adds a profile for this task only, after the one it names.
// Functions cannot leave this process: a task that is to be carried out
// elsewhere needs a profile with a name.
func WithTaskProfile(p TaskProfile) TaskOption {
	return func(o *taskOptions) {
		if p != nil {
			o.private = append(o.private, p)
		}
	}
}

// WithTaskLimits bounds the task. Zero fields have the manager's values.
func WithTaskLimits(l Limits) TaskOption {
	return func(o *taskOptions) { o.limits = l.or(o.limits) }
}

// WithTaskProfileName chooses a profile that [RegisterTaskProfile] added.
func WithTaskProfileName(name string) TaskOption {
	return func(o *taskOptions) { o.profile = name }
}

// WithTaskQueue has the task wait if the maximum number of tasks is running.
// Without it that is an error.
func WithTaskQueue() TaskOption { return func(o *taskOptions) { o.queue = true } }

// WithTaskDepth is [MaxTaskDepth] for this task and those below it: it says how
// deep agents delegate, counted from the agent at the top. A task of a task
// cannot go deeper than its parent may. Default: as its parent, else
// MaxTaskDepth.
func WithTaskDepth(n int) TaskOption { return func(o *taskOptions) { o.depth = n } }

// TaskError is an error of a task: why it ended other than as it should, from
// [TaskStatus.Err], or why a method of its manager could not do something for
// it. Find it with errors.As.
type TaskError struct {
	ID    string    // the task's id
	State TaskState // how the task ended; empty for the error of a method
	Err   error     // the cause
}

// Error names the task and the cause.
func (e *TaskError) Error() string {
	switch e.State {
	case "":
		return fmt.Sprintf("task %s: %v", e.ID, e.Err)
	case TaskCancelled:
		return fmt.Sprintf("task %s was cancelled: %v", e.ID, e.Err)
	}
	return fmt.Sprintf("task %s %s: %v", e.ID, strings.ReplaceAll(string(e.State), "_", " "), e.Err)
}

// Unwrap returns the cause.
func (e *TaskError) Unwrap() error { return e.Err }

// taskError names the task in an error of a method.
func taskError(id string, err error) error {
	if err == nil {
		return nil
	}
	return &TaskError{ID: id, Err: err}
}

// taskEnd is the cause of a task's end, with the task's own words for it.
type taskEnd struct {
	reason string
	cause  error
}

// Error is the reason.
func (e *taskEnd) Error() string { return e.reason }

// Unwrap returns the cause.
func (e *taskEnd) Unwrap() error { return e.cause }

// Err is the error with which the task ended, a [*TaskError], or nil if the
// task is at work, asks, or is finished. A cancelled task's error matches
// [context.Canceled], and one that timed out [context.DeadlineExceeded]. A
// failed one has the error of its run; of a status that was read from JSON,
// only its text and its [*APIError] are left.
func (s TaskStatus) Err() error {
	cause := s.err
	switch s.State {
	case TaskCancelled:
		cause = context.Canceled
	case TaskTimedOut:
		cause = context.DeadlineExceeded
	case TaskFailed:
		if cause == nil && s.Result != nil && s.Result.APIError != nil {
			cause = s.Result.APIError
		}
	default:
		return nil
	}
	return &TaskError{ID: s.ID, State: s.State, Err: &taskEnd{reason: cmp.Or(s.Reason, "no reason is known"), cause: cause}}
}

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
	text, how := plain.Clean(taskpool.NoticeLines(cut.Middle(q.Prompt, maxAskedPrompt))), "(answer with send_task"
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
	if text = taskpool.Indented(text); strings.Contains(text, "\n") {
		return text + "\n" + how + ")"
	}
	return text + " " + how + ")"
}

// waitsForUser says what of the task the user decides or answers, or is empty.
func (s TaskStatus) waitsForUser() string {
	switch {
	case len(s.Approvals) > 0:
		return "it is waiting for the user's approval: " + plainLine(cmp.Or(s.Approvals[0].Request.Tool.Summary, s.Approvals[0].Request.Call.Name))
	case s.Asked != nil && !s.asksParent():
		return "it is waiting for the user's answer: " + plainLine(s.Asked.Request.Question.Prompt)
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
		b.WriteString("\n  " + taskpool.Indented(text))
	}
	if s.Left != nil {
		b.WriteString("\n  " + taskpool.Indented(s.Left.words()))
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
	return line + "\n  " + taskpool.Indented(words)
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
	list    taskpool.Mailbox
	present taskpool.Presence
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

// recordQuestion records a question of a task's tool, or that it is answered.
func (n *taskNotices) recordQuestion(task string, e Event) {
	switch {
	case e.Type == EventAnswer:
		n.list.Known(questionsOf(task), int(e.Seq))
	case e.Question.AsksParent:
		n.list.Add(questionsOf(task), int(e.Seq), fmt.Sprintf("[task %s asks: %s]", task, taskpool.Indented(e.Question.words())))
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

// drain returns the notices for the model and forgets them; the text may be
// empty.
func (n *taskNotices) drain() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf describes how a task ended.
func noticeOf(s TaskStatus) string {
	about := taskpool.Indented(lastWords(s))
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
	FileNew     TaskFileChange = TaskFileChange(filediff.New)
	FileChanged TaskFileChange = TaskFileChange(filediff.Changed)
	FileRemoved TaskFileChange = TaskFileChange(filediff.Removed)
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

// listInventory looks at the workspace of a task, for a limited time. If the
// runtime does not answer, it gives up after twice that time, and the inventory knows
// of nothing.
func listInventory(rt Runtime, within time.Duration) (inv filediff.Inventory) {
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok {
		return inv
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	found := inv
	err := safecall.Within(2*within, func() error {
		found = filediff.Take(ctx, func(ctx context.Context, dir string, limit int) ([]filediff.File, bool, error) {
			infos, more, err := lister.ListFiles(ctx, dir, 1, limit)
			files := make([]filediff.File, len(infos))
			for i, f := range infos {
				files[i] = filediff.File{Path: f.Path, Size: f.Size, Time: f.ModTime, Dir: f.Mode.IsDir()}
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
	left, since := &TaskLeft{Call: did.title, Outcome: did.outcome}, filediff.Inventory.Since
	if end.State == TaskFinished {
		if did.title == "" {
			return changed // it only talked, and its container need not start for a look
		}
		left, since = &TaskLeft{}, filediff.Inventory.Differing
	}
	now := listInventory(agent.Runtime(), within)
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
	if names := t.status.Left.filesLeft().Named(); names != "" && !t.taken && t.status.State == TaskFinished {
		return fmt.Sprintf("task %s made files that were not collected and are deleted with it: %s", t.spec.ID, names)
	}
	return ""
}

// lastCall is the call that an agent made last.
type lastCall struct{ id, title, outcome string }

// update updates the call by an event of the agent.
func (c *lastCall) update(e Event) {
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
		return l.filesLeft().List("It changed these files, for collect_file:")
	}
	did := fmt.Sprintf("It did last: %s (%s)", l.Call, l.Outcome)
	return strings.TrimSuffix(did+"\n"+l.filesLeft().List("Its workspace has, for collect_file:"), "\n")
}

// filesLeft are the files that a task left, which may be nil.
func (l *TaskLeft) filesLeft() (t filediff.Told) {
	if l == nil {
		return t
	}
	t.More, t.Partial = l.More, l.Partial
	for _, f := range l.Files {
		t.Changes = append(t.Changes, filediff.Change{File: filediff.File{Path: f.Path, Size: f.Size}, Kind: filediff.Kind(f.Change)})
	}
	return t
}
