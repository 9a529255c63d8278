package pygent

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/x/pygent/internal/jsonobj"
)

// Result is the outcome of a run.
type Result struct {
	Status    Status    `json:"status"`
	Reason    string    `json:"reason,omitempty"`     // the status in words, if there is more to say
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

	Elapsed time.Duration `json:"-"` // elapsed_seconds in JSON

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
	return json.Marshal(struct {
		plain
		Elapsed jsonobj.Seconds `json:"elapsed_seconds"`
	}{plain(r), jsonobj.Seconds(r.Elapsed)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Result) UnmarshalJSON(data []byte) error {
	type plain Result
	in := struct {
		*plain
		Elapsed *jsonobj.Seconds `json:"elapsed_seconds"`
	}{(*plain)(r), (*jsonobj.Seconds)(&r.Elapsed)}
	return json.Unmarshal(data, &in)
}

// Status says how a run ended.
type Status string

// The ways a run ends.
const (
	StatusStopped      Status = "stopped"        // the model called stop
	StatusAwaitingUser Status = "awaiting_user"  // the model called continue
	StatusReplied      Status = "replied"        // the model replied without calling a tool
	StatusMaxSteps     Status = "max_steps"      // the limit of steps was reached
	StatusMaxToolCalls Status = "max_tool_calls" // the limit of tool calls was reached
	StatusTimeout      Status = "timeout"        // a step or the run took too long
	StatusCancelled    Status = "cancelled"      // the context was cancelled
	StatusBudget       Status = "budget"         // the budget of tokens or of money is spent, or what was spent is not known
	StatusTruncated    Status = "truncated"      // the token limit cut off two answers in a row
	StatusEmpty        Status = "empty"          // the model answered nothing, twice
	StatusStuck        Status = "stuck"          // no progress: calls that repeat themselves or all fail, or replies in place of the work
	StatusContextFull  Status = "context_full"   // the conversation exceeds the model's window
	StatusFailed       Status = "failed"         // the model call failed, the runtime cannot start, or two commands in a row could not begin
)

// Outcome says how a tool call ended.
type Outcome string

// The ways a tool call ends.
const (
	OutcomeOK          Outcome = "ok"          // the tool ran
	OutcomeFailed      Outcome = "failed"      // the tool failed, or there is no such tool, or its arguments do not fit; also a command with another exit code than 0
	OutcomeDenied      Outcome = "denied"      // it was not allowed
	OutcomeNotRun      Outcome = "not_run"     // the run ended, or reached a limit, before it
	OutcomeInterrupted Outcome = "interrupted" // the run was interrupted while it waited for approval or ran; in the latter case it may have taken effect
)

// outcome is the outcome of a call by its tool's own result.
func (r *ToolResult) outcome() Outcome {
	if r.IsError || r.Outcome == OutcomeFailed {
		return OutcomeFailed
	}
	return OutcomeOK
}
