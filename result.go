package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/toolschema"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
	"github.com/x/pygent/openai"
)

// Result is the outcome of a run.
type Result struct {
	Status    Status    `json:"status"`
	Reason    string    `json:"reason,omitempty"`     // the status in words, if there is more to say; of a limit with its option, as "(MaxSteps)"
	APIError  *APIError `json:"api_error,omitempty"`  // the answer of the model's API that made the run fail
	Message   Message   `json:"message,omitzero"`     // the model's last message; zero when there is none
	Summary   string    `json:"summary,omitempty"`    // the model's words when it stopped or summed up; else its first reply after the last tool call; what stood beside other calls never
	Question  *Question `json:"question,omitempty"`   // what the model asks, when it awaits the user
	NoCommand string    `json:"no_command,omitempty"` // why no command could begin: those that the model called could not, or the runtime could not start ([ErrRuntimeStart])
	Steps     int       `json:"steps"`
	ToolCalls int       `json:"tool_calls"`
	Usage     Usage     `json:"usage"`               // of the agent itself
	TaskUsage Usage     `json:"task_usage,omitzero"` // of the tasks that the agent delegated in this run, up to its end
	Cost      float64   `json:"cost,omitempty"`      // of both together, as far as it is known: see [Usage]
	// Models is Usage by the model that answered, as its server names it, if several
	// did.
	Models map[string]Usage `json:"models,omitempty"`
	// Unpriced are the models, of the agent and its tasks, with answers in the time
	// of the run whose cost is not known, and not in Cost, sorted. It is empty as
	// long as nothing has a price.
	Unpriced []string `json:"unpriced,omitempty"`

	Elapsed time.Duration `json:"-" seconds:"elapsed_seconds"`

	told bool // an event of the run has told Message
}

// SummaryIsText reports whether the summary is the text of the message, but for blank
// space around them: who has shown the message has shown the summary.
func (r *Result) SummaryIsText() bool {
	return strings.TrimSpace(r.Summary) == strings.TrimSpace(r.Message.Text())
}

// MarshalJSON encodes the elapsed time in seconds.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return jsonobj.MarshalSeconds(plain(r))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Result) UnmarshalJSON(data []byte) error {
	type plain Result
	return jsonobj.UnmarshalSeconds(data, (*plain)(r))
}

// outcome is the outcome of a call by its tool's own result.
func (r *ToolResult) outcome() Outcome {
	if r.IsError || r.Outcome == OutcomeFailed {
		return OutcomeFailed
	}
	return OutcomeOK
}

// RunTyped is [Agent.RunUntilStop] for a run that ends with a value. The model
// works as in any run, and gives the value by calling a tool, final_answer, whose
// arguments are Out. Only this run has the tool.
//
//	type Review struct {
//		Verdict string   `json:"verdict" jsonschema:"approve or reject"`
//		Issues  []string `json:"issues"`
//	}
//	review, result, err := pygent.RunTyped[Review](ctx, agent, "Review the last commit.")
//
// The schema is derived from Out as [NewTool] derives it; an Out that is no
// struct is the field "value" of an object. A value that does not fit goes back
// to the model with the reason, and so does one whose method Validate() error
// refuses it. The fifth such value ends the run. A stop without a value is
// refused, and a reply ends the run no earlier than [MaxReplies] says, also with
// [WithEndOnReply]. At a limit of steps or tool calls the model is asked for the
// value once more; the status is then that of the limit.
//
// A run that ends without a value, because the model asks the user for example,
// is a [*NoValueError]. Other errors are those of RunUntilStop, and say so when
// Out has no schema or the agent has a tool named final_answer. The result is
// never nil. The response_format of OpenAI's API is not used, because many
// servers do not take it beside tools.
func RunTyped[Out any](ctx context.Context, a *Agent, msg string, opts ...RunOption) (Out, *Result, error) {
	var value Out
	f, err := newFinalTool(&value)
	if err != nil {
		return value, &Result{Status: StatusFailed, Reason: err.Error()}, err
	}
	typed := runOption(func(o *runOptions) { o.final, o.replyEnds = f, false })
	result, err := a.run(ctx, msg, nil, append(slices.Clip(opts), typed))
	if err == nil && f.taken == nil {
		err = &NoValueError{Result: result}
	}
	if err != nil {
		var none Out
		return none, result, err
	}
	f.taken()
	return value, result, nil
}

// NoValueError is the error of [RunTyped] for a run that ended without a value.
type NoValueError struct {
	Result *Result // how the run ended
}

// Error says how the run ended.
func (e *NoValueError) Error() string {
	why := string(e.Result.Status)
	if e.Result.Reason != "" {
		why += ": " + e.Result.Reason
	}
	if q := e.Result.Question; q != nil && q.Prompt != "" {
		why += ": " + q.Prompt
	}
	return "the run ended without a value (" + why + ")"
}

// finalToolName is the tool by which a model gives the value of [RunTyped].
const finalToolName = "final_answer"

// maxWrongValues is how many values that do not fit end a run.
const maxWrongValues = 5

// finalTool takes the value of a typed run.
type finalTool struct {
	tool  Tool
	wrong int    // values that did not fit
	taken func() // stores the value; nil until the run has taken one
}

// newFinalTool returns the tool whose value goes to out.
func newFinalTool[Out any](out *Out) (*finalTool, error) {
	if isObject(reflect.TypeFor[Out]()) {
		return finalToolFor(func(in *Out) *Out { return in }, out)
	}
	type wrapped struct {
		Value Out `json:"value"`
	}
	return finalToolFor(func(in *wrapped) *Out { return &in.Value }, out)
}

// isObject reports whether values of a type are JSON objects with known fields.
func isObject(t reflect.Type) bool {
	var schema struct {
		Type any `json:"type"`
	}
	params, err := toolschema.For(t)
	return err == nil && t.Kind() == reflect.Struct && json.Unmarshal(params, &schema) == nil && schema.Type == "object"
}

// finalToolFor returns the tool that takes an In, in which value finds the value.
func finalToolFor[In, Out any](value func(*In) *Out, out *Out) (*finalTool, error) {
	params, err := toolschema.For(reflect.TypeFor[In]())
	if err != nil {
		return nil, fmt.Errorf("typed run: derive the schema of %s: %w", reflect.TypeFor[Out](), err)
	}
	tool, err := Tool{
		Name:        finalToolName,
		Description: "Give the answer that the user wants, and end the run. Call it instead of stop, when the work is done.",
		Parameters:  params,
		Title:       "Give the answer",
		ReadOnly:    true,
		Run: func(_ context.Context, _ Runtime, args json.RawMessage) (*ToolResult, error) {
			var in In
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, fmt.Errorf("the value does not fit: %w", err)
			}
			given := value(&in)
			if v, ok := any(given).(interface{ Validate() error }); ok {
				if err := v.Validate(); err != nil {
					return nil, fmt.Errorf("the value is not valid: %w", err)
				}
			}
			take := func() { *out = *given }
			return &ToolResult{Content: "the answer is taken", End: StatusStopped, take: take}, nil
		},
	}.checked()
	if err != nil {
		return nil, fmt.Errorf("typed run: %w", err)
	}
	tool.ends, tool.takesValue = true, true
	return &finalTool{tool: tool}, nil
}

// offer adds the tool to those that the model gets. A nil f adds none.
func (f *finalTool) offer(specs []chat.ToolSpec) ([]chat.ToolSpec, error) {
	if f == nil {
		return specs, nil
	}
	i, taken := slices.BinarySearchFunc(specs, finalToolName, func(s chat.ToolSpec, name string) int { return cmp.Compare(s.Name, name) })
	if taken {
		return nil, fmt.Errorf("typed run: the agent has a tool named %s, by which a typed run gets its value: disable or rename it", finalToolName)
	}
	spec := chat.ToolSpec{Name: f.tool.Name, Description: f.tool.Description, Parameters: f.tool.schema.Wire()}
	return slices.Insert(slices.Clone(specs), i, spec), nil
}

// name is the name of the tool that ends the run, and empty for a nil f.
func (f *finalTool) name() string {
	if f == nil {
		return ""
	}
	return f.tool.Name
}

// discard forgets the value, because the run goes on.
func (f *finalTool) discard() {
	if f != nil {
		f.taken = nil
	}
}

// lookup finds a tool of the run.
func (r *run) lookup(name string) (Tool, error) {
	if name != "" && name == r.opts.final.name() {
		return r.opts.final.tool, nil
	}
	return r.agent.tools.lookup(name, r.agent.runtime)
}

// checkValue refuses a stop without a value in a typed run, and ends the run when
// too many values did not fit.
func (r *run) checkValue(call ToolCall, result *ToolResult) *ToolResult {
	f := r.opts.final
	switch {
	case f == nil:
	case result.End == StatusStopped && result.take == nil:
		return notRunResult(OutcomeFailed, looptext.NoValue(f.name()))
	case result.IsError && call.Name == f.name():
		if f.wrong++; f.wrong >= maxWrongValues {
			r.end(StatusStuck, fmt.Sprintf("the model gave %d values that do not fit", f.wrong))
		}
	}
	return result
}

// acceptValue takes the value of a call at the limit of a run, where no tool is run
// any more. It reports whether there is one.
func (r *run) acceptValue(ctx context.Context, call ToolCall) bool {
	f := r.opts.final
	if f == nil || call.Name != f.name() {
		return false
	}
	args, err := f.tool.read(call)
	if err != nil {
		return false
	}
	result, err := callForeign(ctx, r, "the tool "+call.Name, func() (*ToolResult, error) { return f.tool.Run(ctx, nil, args) })
	r.agent.logPanic("tool "+call.Name, err)
	if err != nil {
		return false
	}
	f.taken = result.take
	return true
}

// Status says how a run ended: see [chat.Status].
type Status = chat.Status

// The ways a run ends, as package chat describes them.
const (
	StatusStopped      = chat.StatusStopped
	StatusAwaitingUser = chat.StatusAwaitingUser
	StatusReplied      = chat.StatusReplied
	StatusMaxSteps     = chat.StatusMaxSteps
	StatusMaxToolCalls = chat.StatusMaxToolCalls
	StatusTimeout      = chat.StatusTimeout
	StatusCancelled    = chat.StatusCancelled
	StatusBudget       = chat.StatusBudget
	StatusTruncated    = chat.StatusTruncated
	StatusEmpty        = chat.StatusEmpty
	StatusStuck        = chat.StatusStuck
	StatusContextFull  = chat.StatusContextFull
	StatusFailed       = chat.StatusFailed
)

// Outcome says how a tool call ended: see [chat.Outcome].
type Outcome = chat.Outcome

// The ways a tool call ends, as package chat describes them.
const (
	OutcomeOK          = chat.OutcomeOK
	OutcomeFailed      = chat.OutcomeFailed
	OutcomeDenied      = chat.OutcomeDenied
	OutcomeNotRun      = chat.OutcomeNotRun
	OutcomeInterrupted = chat.OutcomeInterrupted
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
	// Those of package openai, which describes them.
	ErrNoModel        = openai.ErrNoModel
	ErrAnswerTooLarge = openai.ErrAnswerTooLarge
	ErrRedirected     = openai.ErrRedirected
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
type ConfigError = openai.ConfigError

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
// it to have the agent retry: see [chat.APIError].
type APIError = chat.APIError
