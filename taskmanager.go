package pygent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// TaskManager has agents work on tasks in the background, each in a runtime
// and a workspace of its own. Every [Agent] has one, [Agent.Tasks], for its
// delegation tools; [NewTaskManager] makes one for a program, or one that
// several agents share.
//
// A task is carried out until its agent stops, asks, or reaches a limit. Then
// it rests: its conversation and its files are kept, to be collected or to go
// on at the next message, until Remove or Close. Its methods are safe for
// concurrent use. Close it when done.
type TaskManager struct {
	opts  taskManagerOptions
	exec  taskExecutor
	files taskFiles

	life context.Context // ends at Close, and with it the followers
	end  context.CancelFunc
	wg   sync.WaitGroup // of followers; added to under mu

	approving sync.Mutex // held while somebody is asked about a call
	emitting  sync.Mutex // held while the event handler runs

	mu       sync.Mutex // guards what follows
	closed   bool
	started  int                     // tasks so far, for the turns of personas
	links    map[string]*taskLink    // by task
	children map[string][]string     // the tasks of a task
	private  map[string]*taskPrivate // of tasks whose agent may still have to be made
}

// NewTaskManager makes a manager that carries out tasks in this process.
func NewTaskManager(opts ...TaskManagerOption) (*TaskManager, error) {
	o, err := newTaskManagerOptions(opts)
	if err != nil {
		return nil, err
	}
	return newTaskManager(o), nil
}

func newTaskManager(o taskManagerOptions) *TaskManager {
	m := &TaskManager{
		opts:     o,
		links:    map[string]*taskLink{},
		children: map[string][]string{},
		private:  map[string]*taskPrivate{},
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.exec = newLocalExecutor(o.maxTasks, m.openAgent)
	return m
}

// StartTask has an agent work on prompt in the background and returns the
// task's id. The agent gets a runtime of the same kind as parent, with the same
// limits and a temporary workspace; with a nil parent it is as the manager's
// agents have it.
//
// ctx bounds the start alone, in which parent is read: its settings, and the
// files to copy. When it is the context of a tool call, the agent that called
// delegates: it is told of the end, its limits of tokens and time bound the
// task, and its own depth counts. Errors match [ErrTooManyTasks],
// [ErrTaskDepth] or [ErrTaskExists].
func (m *TaskManager) StartTask(ctx context.Context, prompt string, parent Runtime, opts ...TaskOption) (string, error) {
	var o taskOptions
	apply(&o, opts)
	if o.id == "" {
		o.id = newID()
	}
	if err := m.startTask(ctx, prompt, parent, o); err != nil {
		return "", fmt.Errorf("start task: %w", err)
	}
	return o.id, nil
}

func (m *TaskManager) startTask(ctx context.Context, prompt string, parent Runtime, o taskOptions) (err error) {
	link := m.linkOf(ctx)
	if link.depth > m.opts.depth {
		return fmt.Errorf("%w (depth %d, and the deepest is %d)", ErrTaskDepth, link.depth, m.opts.depth)
	}
	spec, err := m.spec(prompt, o, link)
	if err != nil {
		return err
	}
	if known, err := m.exec.status(ctx, spec.ID); err == nil {
		if known.Prompt != prompt {
			return taskError(spec.ID, ErrTaskExists)
		}
		return nil
	}
	kind, private := taskRuntimeOf(parent)
	private.profiles = o.private
	spec.Runtime = kind
	if spec.Files, err = m.files.collect(ctx, parent, o.files); err != nil {
		return fmt.Errorf("copy files: %w", err)
	}
	private.link, private.files = link, spec.Files
	if !m.register(spec, link, &private) {
		m.files.release(spec.Files)
		return nil // another call was faster
	}
	if err := m.exec.start(ctx, spec); err != nil {
		m.unregister(spec)
		return err
	}
	m.follow(spec.ID)
	return nil
}

// spec puts a task into its JSON form. Runtime and files are still missing.
func (m *TaskManager) spec(prompt string, o taskOptions, link *taskLink) (TaskSpec, error) {
	spec := TaskSpec{
		Version: taskSpecVersion,
		ID:      o.id,
		Parent:  link.parentID(),
		Profile: o.profile,
		Prompt:  prompt,
		Model:   o.model,
		Depth:   link.depth,
		Queue:   o.queue,
		Limits: o.limits.or(m.opts.limits).or(TaskLimits{
			StepTimeout: DefaultTaskStepTimeout,
			Timeout:     DefaultTaskTimeout,
		}),
	}
	if err := spec.check(); err != nil {
		return spec, err
	}
	if _, err := taskProfile(o.profile); err != nil {
		return spec, err
	}
	if err := link.budget.bound(&spec.Limits); err != nil {
		return spec, err
	}
	var err error
	spec.Persona, err = m.persona(o)
	return spec, err
}

// persona chooses who works on a task: whoever it names, else the next in turn.
func (m *TaskManager) persona(o taskOptions) (Persona, error) {
	switch {
	case o.persona != nil:
		return o.persona.orDefault(), nil
	case o.name != "":
		return personaNamed(m.opts.personas, o.name)
	case len(m.opts.personas) == 0:
		return Persona{}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.opts.personas[m.started%len(m.opts.personas)]
	m.started++
	return p, nil
}

// Personas returns who can work on tasks.
func (m *TaskManager) Personas() []Persona { return slices.Clone(m.opts.personas) }

// Status returns what is known of a task. The error matches [ErrUnknownTask]
// for an id that no task has.
func (m *TaskManager) Status(ctx context.Context, id string) (TaskStatus, error) {
	status, err := m.exec.status(ctx, id)
	return status, taskError(id, err)
}

// Tasks returns the status of all tasks, the oldest first.
func (m *TaskManager) Tasks(ctx context.Context) ([]TaskStatus, error) {
	return m.exec.list(ctx)
}

// Wait returns the status of a task once it rests and its events have been
// handed out. When ctx ends before, it returns the status so far and an error.
// Do not call it from an event handler.
func (m *TaskManager) Wait(ctx context.Context, id string) (TaskStatus, error) {
	status, err := m.exec.status(ctx, id)
	for err == nil && !status.State.AtRest() {
		for e, failed := range m.exec.events(ctx, id, status.Seq) {
			if err = failed; err == nil && e.Task == id && e.TaskStatus != nil {
				status = *e.TaskStatus
			}
		}
		if err == nil {
			status, err = m.exec.status(ctx, id)
		}
	}
	if err == nil {
		m.waitHandled(ctx, status)
	}
	return status, taskError(id, err)
}

// Cancel asks a task to end; Wait tells when it has. The agents that the task
// itself delegated to are asked as well. A task at rest stays as it is, except
// that it waits for the user no more.
func (m *TaskManager) Cancel(ctx context.Context, id string) error {
	return m.cancel(ctx, id, "")
}

func (m *TaskManager) cancel(ctx context.Context, id, reason string) error {
	return taskError(id, m.exec.send(ctx, id, taskInput{ID: newID(), Kind: inputCancel, Text: reason}))
}

// SendOption adjusts a message to a task.
type SendOption func(*taskInput)

// MessageID names a message: sending a second one of the same name to the task
// does nothing, so that a failed Send can be repeated safely.
func MessageID(id string) SendOption { return func(in *taskInput) { in.ID = "message-" + id } }

// Send has a task at rest go on with a message, such as the answer to its
// question. It needs room like a new task. The error matches [ErrTaskRunning]
// for one that is at work.
func (m *TaskManager) Send(ctx context.Context, id, message string, opts ...SendOption) error {
	in := taskInput{ID: newID(), Kind: inputMessage, Text: message}
	apply(&in, opts)
	if message == "" {
		return taskError(id, errors.New("the message is empty"))
	}
	if err := m.exec.send(ctx, id, in); err != nil {
		return taskError(id, err)
	}
	m.follow(id)
	return nil
}

// CollectFile copies a file or directory of a task's workspace into rt, to dest
// or, when that is empty, to the same path. The task may be at work.
func (m *TaskManager) CollectFile(ctx context.Context, rt Runtime, id, path, dest string) error {
	if dest == "" {
		rel, err := relativeTo(ctx, rt, path)
		if err != nil {
			return taskError(id, fmt.Errorf("%w; say where it goes", err))
		}
		dest = rel
	}
	r, w := io.Pipe()
	var wg sync.WaitGroup
	var exported error
	wg.Go(func() {
		exported = m.exec.export(ctx, id, path, w)
		w.CloseWithError(exported)
	})
	err := uploadTar(ctx, rt, r, dest)
	r.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // so that the export cannot hang
	wg.Wait()
	return taskError(id, cmp.Or(exported, err))
}

// TaskHistory returns the conversation of a task's agent. The slice is a view
// for reading. It is empty before the agent was made.
func (m *TaskManager) TaskHistory(ctx context.Context, id string) ([]Message, error) {
	messages, err := m.exec.history(ctx, id)
	return messages, taskError(id, err)
}

// Remove forgets a task at rest, and removes its runtime with all its files.
func (m *TaskManager) Remove(ctx context.Context, id string) error {
	if err := m.exec.remove(ctx, id); err != nil {
		return taskError(id, err)
	}
	m.forget(id)
	return nil
}

// Close cancels all tasks, waits for them, and removes their runtimes. It may be
// called more than once.
func (m *TaskManager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	err := m.exec.close()
	// The followers end with the tasks they follow, and after their last events.
	m.wg.Wait()
	m.end()
	return errors.Join(err, m.files.close())
}

// openAgent makes the agent of a task and copies the files in that it begins
// with. The executor calls it when there is room.
func (m *TaskManager) openAgent(ctx context.Context, spec TaskSpec, gate ApprovalFunc) (*Agent, error) {
	m.mu.Lock()
	private := m.private[spec.ID]
	m.mu.Unlock()
	if private == nil {
		return nil, ErrTaskManagerClosed
	}
	agent, err := m.taskAgent(ctx, spec, *private, gate)
	if err != nil {
		return nil, fmt.Errorf("make its agent: %w", err)
	}
	if err := m.files.unpackInto(ctx, agent.Runtime(), spec.Files); err != nil {
		return nil, errors.Join(fmt.Errorf("copy files: %w", err), agent.Close())
	}
	m.releaseFiles(spec.ID)
	return agent, nil
}

// newID returns a new id, short enough for a model to repeat it.
func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// timeLeft is how long it is until a deadline; zero means that there is none.
func timeLeft(deadline time.Time) time.Duration {
	if deadline.IsZero() {
		return 0
	}
	return cmp.Or(time.Until(deadline), -1)
}
