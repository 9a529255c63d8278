package pygent

import (
	"context"
	"errors"
	"fmt"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/numeral"
	wire "github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
	"github.com/x/pygent/openai"
)

// Errors that callers branch on, to be tested with errors.Is.
var (
	// ErrDockerUnavailable is returned when Docker is required and no engine answers.
	ErrDockerUnavailable = docker.ErrUnavailable
	// ErrRuntimeStart is returned by the methods of a runtime that cannot start
	// as it is configured: the image is missing, or the engine refuses the
	// container. Nothing can run there, so an agent's run ends with it, when a
	// command meets it, or before: see [WithEndOnStartFailure]. A run also ends with
	// it at the second command in a row whose error matches ErrRuntimeNotReady.
	ErrRuntimeStart = sandbox.ErrStart
	// ErrRuntimeNotReady is matched by the error of a command that could not begin, since
	// the engine or the container does not answer, is gone or is too busy. Nothing
	// has run, and the error may pass.
	ErrRuntimeNotReady = sandbox.ErrNotReady
	// ErrRuntimeLost is returned while an engine does not answer and so nobody
	// knows whether the last container of a runtime still runs. Nothing else may
	// run in its workspace until then. The error may pass.
	ErrRuntimeLost = docker.ErrLost
	// ErrCleanupIncomplete is returned by Cleanup when the engine did not remove
	// what it runs. The workspace is complete nevertheless, and a later process
	// removes the rest: see [Leftovers].
	ErrCleanupIncomplete = docker.ErrCleanupIncomplete
	// ErrRuntimeClosed is returned by a runtime after Cleanup.
	ErrRuntimeClosed = sandbox.ErrClosed
	// ErrOutsideWorkspace is returned for a path that leads out of the workspace.
	ErrOutsideWorkspace = workspace.ErrOutside
	// ErrFileTooLarge is returned for a file above [MaxReadFile].
	ErrFileTooLarge = workspace.ErrTooLarge

	// ErrCopyTooLarge is returned for files that exceed a limit of copying:
	// their size in bytes, of which holes do not count, their number, or the
	// depth of their directories. In that case nothing was copied.
	ErrCopyTooLarge = tree.ErrTooLarge
	// ErrAgentBusy is returned when a run is started while another one goes on.
	ErrAgentBusy = errors.New("the agent is busy with another run")
	// ErrAgentClosed is returned by an agent after Close.
	ErrAgentClosed = errors.New("the agent is closed")
	// ErrInCallback is returned at once by a method that waits, such as Close,
	// when it is called from an event handler, a tool or an approval that it
	// would wait for.
	ErrInCallback = errors.New("called from an event handler, a tool or an approval that it would wait for")
	// ErrLeftBehind is returned by Close when something did not end in time:
	// code that ignores its context, or a runtime whose Cleanup does not return.
	ErrLeftBehind = safecall.ErrLeftBehind
	// ErrNoAnswer is returned by [Agent.Step] when the model's answer is empty.
	ErrNoAnswer = errors.New("the model gave no answer")
	// ErrAnswerTooLarge is returned for an answer of a model's server that is
	// larger than models write: in bytes, elements or nesting.
	ErrAnswerTooLarge = chatstream.ErrTooLarge
	// ErrRedirected is returned when a model's server redirects a request to
	// another host or port, or from https to http. Such a redirect is not
	// followed, because the key would go along.
	ErrRedirected = wire.ErrRedirected
	// ErrNoModel is returned when no model is configured: no key, no base URL.
	ErrNoModel = openai.ErrNoModel
	// ErrUnknownTool is returned for a tool that is not registered.
	ErrUnknownTool = errors.New("unknown tool")
	// ErrToolDisabled is returned for a tool that is registered but disabled, or
	// that cannot work in the runtime.
	ErrToolDisabled = errors.New("the tool is disabled")
)

// errNilContext refuses a nil context, which would only panic later.
var errNilContext = errors.New("the context is nil")

// errClosing is the cause of the end of a run whose agent is closed.
var errClosing = fmt.Errorf("the run was cancelled: %w", ErrAgentClosed)

// alive returns an error if ctx is nil or has ended.
func alive(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case ctx.Err() != nil:
		return safecall.ContextError(ctx)
	}
	return nil
}

// ToolError is the error of one tool call. The model sees it as the call's
// result; callers of [ExecuteTool] find it with errors.As.
type ToolError struct {
	Tool  string // the tool's name
	Err   error  // what went wrong
	Stack []byte // set when the tool panicked
}

// Error names the tool and the cause.
func (e *ToolError) Error() string { return fmt.Sprintf("tool %s: %v", e.Tool, e.Err) }

// Unwrap returns the cause.
func (e *ToolError) Unwrap() error { return e.Err }

// ConfigError is one fault of a configuration.
type ConfigError struct {
	Source string // the file's path, "environment" or "-e"
	Line   int    // in the file, from 1; 0 when there is none
	Column int    // in bytes, from 1
	Key    string // the key or variable; empty when the fault concerns none
	Err    error  // what is wrong
}

// Error has the form of a compiler's message: file, line, column, what is
// wrong.
func (e *ConfigError) Error() string { return (*settings.Fault)(e).Error() }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// maxConfigErrors is how many faults one error lists.
const maxConfigErrors = 20

// configErrors returns the faults as one error, or nil if there are none.
func configErrors(faults []*settings.Fault) error {
	var errs []error
	for _, f := range faults[:min(len(faults), maxConfigErrors)] {
		errs = append(errs, (*ConfigError)(f))
	}
	if more := len(faults) - maxConfigErrors; more > 0 {
		errs = append(errs, errors.New("and "+numeral.Count(more, "more fault")))
	}
	return errors.Join(errs...)
}

// APIError is an error of a model's API. Find it with errors.As. A custom [Model] may return
// it to have the agent retry.
type APIError = chat.APIError
