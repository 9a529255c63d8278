package pygent

import (
	"context"
	"io"
	"iter"
	"log/slog"
)

// taskExecutor carries out tasks. It is the seam between the [TaskManager],
// which knows parents, personas and budgets, and where agents run: in this
// process for now, on a durable workflow engine or another machine later. So
// everything that crosses it is data. Methods are safe for concurrent use, and
// their contexts bound the call, never a task.
type taskExecutor interface {
	// start sets a task going, or queues it. A task whose id and prompt are
	// known is left as it is.
	start(ctx context.Context, spec TaskSpec) error

	// status and list tell what is known of one task, and of all.
	status(ctx context.Context, id string) (TaskStatus, error)
	list(ctx context.Context) ([]TaskStatus, error)

	// events gives the task's events with numbers above after, as they come,
	// until the task rests and there are no more. Old ones may be missing, text
	// deltas first: the numbers show it.
	events(ctx context.Context, id string, after int64) iter.Seq2[Event, error]

	// send hands an input to a task. One whose id was seen does nothing.
	send(ctx context.Context, id string, in taskInput) error

	// history is the conversation of the task's agent.
	history(ctx context.Context, id string) ([]Message, error)

	// export writes the archive of a file or directory of the task's workspace,
	// as package tree has it.
	export(ctx context.Context, id, path string, w io.Writer) error

	// remove forgets a task at rest, and its workspace.
	remove(ctx context.Context, id string) error

	// close cancels all tasks, waits for them, and cleans up after them. It does
	// not wait for ever: its error says what it left behind.
	close() error
}

// taskHost is what an executor in this process asks of the manager.
type taskHost interface {
	// openAgent makes the agent of a task, with the files that it begins with.
	openAgent(ctx context.Context, spec TaskSpec, gate ApprovalFunc) (*Agent, error)
	// grant sets aside what a run of the task may spend, its first or a further
	// one. It does not call back.
	grant(spec TaskSpec, first bool) (taskGrant, error)
	// logger takes what is not for models and people: the stacks of panics.
	logger() *slog.Logger
}

// taskInput is what is sent to a task.
type taskInput struct {
	ID   string        `json:"id"` // sending the same twice is sending it once
	Kind taskInputKind `json:"kind"`
	Text string        `json:"text,omitempty"` // the message, or why the task is cancelled

	Request  int64    `json:"request,omitempty"` // the number of the event that asked for the decision
	Decision Decision `json:"decision,omitzero"`
}

type taskInputKind string

const (
	inputMessage  taskInputKind = "message"  // of the user, to a task at rest
	inputDecision taskInputKind = "decision" // about a call that needs approval
	inputCancel   taskInputKind = "cancel"   // a request: the status tells when it is done
)
