package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/budget"
	"github.com/x/pygent/internal/cut"
)

// taskSpecVersion is the version of the JSON of a [TaskSpec]. A reader refuses
// versions it does not know. A field that restricts the task raises it, so that
// nobody carries a task out without what it does not understand. One that adds to
// the task need not: readers refuse fields that they do not know.
const taskSpecVersion = 2

// Limits of a task that sets none.
const (
	// DefaultTaskStepTimeout is how long a step of a task may take.
	DefaultTaskStepTimeout = 5 * time.Minute
	// DefaultTaskMaxTime is how long a task may take, its start included.
	DefaultTaskMaxTime = 20 * time.Minute
	// DefaultMaxTasks is how many tasks of a manager run at once.
	DefaultMaxTasks = 3
	// DefaultTaskDepth is how deep agents delegate: those that work on tasks do
	// not.
	DefaultTaskDepth = 1
)

// TaskSpec describes a task so that it can be carried out elsewhere: it is a
// small JSON value without functions and secrets. What only this process has,
// such as a Model, reaches the task through its profile.
type TaskSpec struct {
	Version int         `json:"version"`
	ID      string      `json:"id"`
	Parent  string      `json:"parent,omitempty"`  // the id of the agent that delegates
	From    string      `json:"from,omitempty"`    // the name of its persona
	Profile string      `json:"profile,omitempty"` // see [RegisterTaskProfile]; empty means the manager's own
	Prompt  string      `json:"prompt"`
	Parts   []Part      `json:"parts,omitempty"`  // what goes with the prompt, see [WithTaskParts]
	Persona Persona     `json:"persona,omitzero"` // zero means the profile's
	Model   string      `json:"model,omitempty"`  // a model's name; empty means the profile's
	Call    string      `json:"call,omitempty"`   // the id of the tool call of the parent that delegates it
	Depth   int         `json:"depth"`            // of the task's agent, at least 1
	Files   string      `json:"files,omitempty"`  // "sha256:…" of the tar with the files to begin with
	Copied  []string    `json:"copied,omitempty"` // the paths of those files, as they were asked for, the first thousand
	Runtime TaskRuntime `json:"runtime,omitzero"`
	Rules   TaskRules   `json:"rules,omitzero"`
	Limits  Limits      `json:"limits"`
}

// TaskRules are what a task's agent has to keep to because of the agent that
// delegated it, as it was then. They bind the task and those below it. The
// options of the manager and of a profile can only add to the bans and to the
// disabled tools.
type TaskRules struct {
	Root     string    `json:"root,omitempty"`      // the id of the agent at the top, whose task or task's task it is
	MaxDepth int       `json:"max_depth,omitempty"` // how deep agents delegate; no task below this one has a greater depth
	Deadline time.Time `json:"deadline,omitzero"`   // when the first run ends, as the run that delegated it does; zero for none

	BannedCommands []string `json:"banned_commands,omitempty"` // as [WithBannedCommands] takes them
	BannedApps     []string `json:"banned_apps,omitempty"`     // as [WithBannedApps] takes them
	DisabledTools  []string `json:"disabled_tools,omitempty"`  // also where other tools have these names
	ApprovalFor    []string `json:"approval_for,omitempty"`    // as [WithApprovalFor] takes them
	ApproveAll     bool     `json:"approve_all,omitempty"`     // calls of tools that are not ReadOnly need approval
	ConfirmBash    *bool    `json:"confirm_bash,omitempty"`    // as [WithConfirmBash] takes it; nil for not set

	// Env names the variables of the parent's commands. Their values are not in
	// the spec, because they may be secrets.
	Env []string `json:"env,omitempty"`
}

// option returns the option that has an agent keep to the rules.
func (r TaskRules) option() Option {
	return option(func(o *options) {
		o.banned = append(o.banned, r.BannedCommands...)
		o.bannedApps = append(o.bannedApps, r.BannedApps...)
		o.forbidden = append(o.forbidden, r.DisabledTools...)
		o.approvalFor = append(o.approvalFor, r.ApprovalFor...)
		o.inheritedFor = r.ApprovalFor
		o.approveAll = o.approveAll || r.ApproveAll
		if r.ConfirmBash != nil {
			o.confirmBash = r.ConfirmBash
		}
	})
}

// rulesBelow returns the rules for the tasks that the agent delegates.
func (a *Agent) rulesBelow() TaskRules {
	from := &a.opts
	_, disabled := a.tools.names()
	return TaskRules{
		Root:           cmp.Or(from.rules.Root, a.id),
		BannedCommands: slices.Clone(from.banned),
		BannedApps:     slices.Clone(from.bannedApps),
		DisabledTools:  disabled,
		ApprovalFor:    slices.Clone(from.approvalFor),
		ApproveAll:     from.approveAll,
		ConfirmBash:    a.approver.Confirm(),
	}
}

// TaskRuntime says in what kind of runtime a task is carried out. It leaves out
// what is true of one machine only: the engine's address, mounts, and whether
// the engine shares files.
type TaskRuntime struct {
	// Kind is "docker", "local", "custom" for a runtime that only the parent
	// can make, or empty for the profile's.
	Kind string `json:"kind,omitempty"`
	// Container says how to make the container, as the parent's was made, or
	// that there is none.
	Container ContainerConfig `json:"container,omitzero"`
	// Local says what commands may reach if there is no container.
	Local LocalConfig `json:"local,omitzero"`
	// MaxCopyBytes is the limit of that name; 0 is the default.
	MaxCopyBytes int64 `json:"max_copy_bytes,omitempty"`
}

// options returns the options of a runtime for a task. The environment and the
// task's profile affect them only if there is no parent; the workspace is the
// task's own in any case.
func (t TaskRuntime) options(private taskPrivate) []RuntimeOption {
	hasParent := t.Kind != ""
	opts := slices.Concat(t.Container.options(), private.machine.options(), t.Local.options(),
		given(nil, t.MaxCopyBytes, MaxCopyBytes), []RuntimeOption{WithEnv(private.env...)})
	if hasParent {
		opts = append(opts, runtimeEnvironmentIncluded{})
	}
	return append(opts, runtimeOption{"", func(o *runtimeOptions) {
		o.workspace, o.initialFiles, o.publishPorts = "", nil, nil
		o.keepLeftovers = o.keepLeftovers || hasParent // the parent has removed leftovers, or must not
	}})
}

// taskID is the form of an id, which becomes part of names and messages.
var taskID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// check refuses a spec that no executor could carry out.
func (s TaskSpec) check() error {
	switch {
	case s.Version != taskSpecVersion:
		return fmt.Errorf("task spec: version %d is not known here, only %d", s.Version, taskSpecVersion)
	case !taskID.MatchString(s.ID):
		return fmt.Errorf("task spec: id %q: want 1 to 64 letters, digits, dots, dashes or underscores", s.ID)
	case s.Prompt == "":
		return errors.New("task spec: the prompt is empty")
	case s.Depth < 1:
		return fmt.Errorf("task spec: depth %d is below 1", s.Depth)
	}
	if err := cmp.Or(s.message().check(), s.Limits.check()); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	return nil
}

// UnmarshalJSON decodes a spec. It refuses versions and fields that this package
// does not know, because it could not carry them out faithfully.
func (s *TaskSpec) UnmarshalJSON(data []byte) error {
	type plain TaskSpec // has no methods, and so no recursion
	var p plain
	in := struct {
		*plain
		Limits limitsJSON `json:"limits"`
	}{&p, p.Limits.decoding()}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	if err := TaskSpec(p).check(); err != nil {
		return err
	}
	*s = TaskSpec(p)
	return nil
}

// taskPrivate is what a task needs but its spec must not hold.
type taskPrivate struct {
	files    string                                     // the reference to the task's first files; empty once they are unpacked
	profiles []TaskProfile                              // for this task only
	env      []string                                   // of the parent's commands
	machine  ContainerConfig                            // what is true of this machine only, of a runtime like the parent's
	fork     func(ctx context.Context) (Runtime, error) // makes a runtime like a custom parent's
}

// TaskRuntimeMaker is implemented by custom runtimes whose agents delegate:
// it makes another runtime of the same kind, with a workspace of its own. The
// task owns it, and cleans it up. It must outlive ctx.
type TaskRuntimeMaker interface {
	NewTaskRuntime(ctx context.Context) (Runtime, error)
}

// taskRuntimeOf describes how to make runtimes of the parent's kind. It reads
// only the parent's settings, because the parent may be gone when they are
// used.
func taskRuntimeOf(parent Runtime) (TaskRuntime, taskPrivate) {
	if parent == nil {
		return TaskRuntime{}, taskPrivate{}
	}
	if maker, ok := RuntimeAs[TaskRuntimeMaker](parent); ok {
		return TaskRuntime{Kind: kindCustom}, taskPrivate{fork: maker.NewTaskRuntime}
	}
	if ours, ok := RuntimeAs[*workspaceRuntime](parent); ok {
		return ours.sibling()
	}
	return TaskRuntime{Kind: kindCustom}, taskPrivate{}
}

// kindCustom is the kind of a runtime that is not of this package.
const kindCustom = "custom"

var errNoTaskRuntime = errors.New("the parent's runtime cannot make another of its kind: implement TaskRuntimeMaker, or give the profile a runtime")

// launch completes the spec of a task and hands it to the executor.
func (m *TaskManager) launch(ctx context.Context, r *taskRecord, spec TaskSpec, parent Runtime, o taskOptions) (err error) {
	if _, err := taskProfile(spec.Profile); err != nil {
		return err
	}
	if err := r.Value.budget.Check(); err != nil {
		return err
	}
	var turn int
	if spec.Persona, turn, err = m.persona(r.Value.request); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.giveBack(turn)
		}
	}()
	kind, private := taskRuntimeOf(parent)
	spec.Runtime = kind
	if spec.Files, err = m.copyFiles(ctx, parent, o.files); err != nil {
		return fmt.Errorf("copy files: %w", err)
	}
	for _, v := range private.env {
		name, _, _ := strings.Cut(v, "=")
		spec.Rules.Env = append(spec.Rules.Env, name)
	}
	private.files, private.profiles = spec.Files, o.private
	m.mu.Lock()
	r.Value.private = private
	m.mu.Unlock()
	return m.exec.start(ctx, spec, r.Value.request.queue)
}

// spec returns the JSON form of a task, without persona, runtime and files.
func (m *TaskManager) spec(r *taskRecord) TaskSpec {
	copied := slices.Clone(r.Value.request.files[:min(len(r.Value.request.files), 1000)])
	for i, name := range copied {
		copied[i] = cut.Head(name, maxCopiedName)
	}
	return TaskSpec{
		Version: taskSpecVersion,
		ID:      r.ID,
		Parent:  r.Value.request.parent,
		From:    r.Value.from(),
		Copied:  copied,
		Profile: r.Value.request.profile,
		Prompt:  r.Value.request.prompt,
		Parts:   r.Value.request.parts,
		Model:   r.Value.request.model,
		Call:    r.Value.by.id(),
		Depth:   r.Value.depth,
		Rules:   m.rules(r),
		Limits: r.Value.request.limits.or(m.opts.limits).or(Limits{
			StepTimeout: DefaultTaskStepTimeout,
			MaxTime:     DefaultTaskMaxTime,
		}),
	}
}

// rules returns what binds a task and those below it.
func (m *TaskManager) rules(r *taskRecord) TaskRules {
	rules := TaskRules{Root: r.ID}
	if by := r.Value.agent; by != nil {
		rules = by.rulesBelow()
	}
	if rules.MaxDepth = m.deepest(r); rules.MaxDepth == math.MaxInt {
		rules.MaxDepth = NoLimit
	}
	if run := r.Value.budget; run != nil {
		rules.Deadline = run.Deadline
	}
	return rules
}

// deepest is the greatest depth that the task of r and those below it may have:
// what its request asks for, but no more than its parent may.
func (m *TaskManager) deepest(r *taskRecord) int {
	most, bound := m.opts.depth, math.MaxInt
	if by := r.Value.agent; by != nil && by.opts.rules.MaxDepth != 0 {
		most = limitOr(by.opts.rules.MaxDepth, most)
		bound = most
	}
	return min(limitOr(r.Value.request.depth, most), bound)
}

// taskExecutor carries out tasks. It separates the [TaskManager], which knows
// parents, personas and budgets, from the place where agents run: this process
// for now, perhaps a durable workflow engine or another machine later. So
// everything that crosses this interface is data. Methods are safe for
// concurrent use, and their contexts bound the call, never a task.
type taskExecutor interface {
	// start runs a task. Without room it queues the task, if that is allowed. It
	// has no effect on a task whose id, prompt and parts are known.
	start(ctx context.Context, spec TaskSpec, queue bool) error
	// status and list return the status of one task, and of all that are chosen.
	status(ctx context.Context, id string) (TaskStatus, error)
	list(ctx context.Context, filter TaskFilter) ([]TaskStatus, error)
	// events returns the task's events with numbers above after, as they come,
	// until the task is removed. Old events may be missing, text deltas first;
	// gaps in the numbers show that.
	events(ctx context.Context, id string, after int64) iter.Seq2[Event, error]
	// send hands an input to a task. An input whose id was seen has no effect. A
	// message to a task at work is kept until it rests. send returns the number
	// of a message, which the events after it carry.
	send(ctx context.Context, id string, in taskInput) (number int64, err error)
	// history is the conversation of the task's agent.
	history(ctx context.Context, id string) ([]Message, error)
	// export writes a file or directory of the task's workspace as an archive of
	// package tree. It says as of when, and whether the task was at work then.
	export(ctx context.Context, id, path string, w io.Writer) (asOf time.Time, live bool, err error)
	// remove forgets a task at rest and removes its workspace.
	remove(ctx context.Context, id string) error
	// close cancels all tasks, waits for them, and cleans up after them. The
	// wait is bounded: its error names what it left behind.
	close() error
}

// An executor ends the context of a run in one of three ways: with a
// [taskCancelled] or errTaskTimeout as the cause, which are outcomes, or with
// errTakenAway. To have a run go on elsewhere in good order, it closes the
// channel yield of its turn instead.
var (
	// errTakenAway ends a run of a task that is carried out elsewhere by now. From
	// then on the run leaves no trace: no event, no message, no outcome.
	errTakenAway = errors.New("the task was taken over elsewhere")
	// errYield is the error of a run that stopped before a step, to go on elsewhere.
	errYield = errors.New("the run stopped to go on elsewhere")
)

// traceless returns errTakenAway if that ended the context; ctx may be nil.
func traceless(ctx context.Context) error {
	if ctx != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errTakenAway) {
		return errTakenAway
	}
	return nil
}

// taskTurn is one run of a task, or what is left of one that another executor
// began: then the agent has the history that the other one left.
type taskTurn struct {
	message taskMessage               // not used if before is set
	before  *Result                   // what the run did elsewhere: steps, calls, tokens and time; nil if it begins here
	tokens  *budget.Account[spending] // what it may spend, what it did included
	yield   <-chan struct{}           // closed when it is to stop at its next step; nil for never
	record  func(Event)               // gets the events
	inbox   func() []taskMessage      // returns the messages that are to be heard before the next step; nil for none
}

// runTask has an agent carry out a turn. It keeps all limits of spec but those of
// tokens and money, which are in the account, and of time, which ctx has, because a task's
// time includes more than its agent's runs. If the turn is taken away or yields,
// the error is errTakenAway or errYield, and the turn has no outcome.
func runTask(ctx context.Context, spec TaskSpec, agent *Agent, turn taskTurn) (*Result, error) {
	limits := spec.Limits
	limits.MaxTokens, limits.MaxCost, limits.MaxTime = 0, 0, 0
	opts := []RunOption{limits.option(), WithEndOnAnswer(), OnEvent(func(e Event) {
		if traceless(ctx) == nil {
			turn.record(e)
		}
	}), runOption(func(o *runOptions) {
		o.account, o.before, o.yield, o.inbox = turn.tokens, turn.before, turn.yield, turn.inbox
	})}
	var result *Result
	var err error
	if turn.before != nil {
		result, err = agent.Resume(ctx, opts...)
	} else {
		result, err = agent.RunUntilStop(ctx, turn.message.text, append(opts, WithParts(turn.message.parts...))...)
	}
	return result, cmp.Or(traceless(ctx), err)
}
