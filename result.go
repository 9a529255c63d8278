package pygent

import "time"

// Result is the outcome of a run.
type Result struct {
	Status    Status        `json:"status"`
	Reason    string        `json:"reason,omitempty"`    // the status in words, where there is more to say
	APIError  *APIError     `json:"api_error,omitempty"` // what the model's API answered, when the run failed by it
	Message   Message       `json:"message,omitzero"`    // the last message of the model; zero when it gave none
	Summary   string        `json:"summary,omitempty"`   // what the model said when it stopped or summed up; else its first reply after the last tool call
	Question  *Question     `json:"question,omitempty"`  // what the model asks, when it awaits the user
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`               // of the agent itself
	TaskUsage Usage         `json:"task_usage,omitzero"` // of tasks it delegated in this run, while it went on
	Elapsed   time.Duration `json:"-"`                   // elapsed_seconds in JSON
}

// Question is what a model asks the user with the tool "continue".
type Question struct {
	Prompt  string   `json:"prompt,omitempty"`
	Options []string `json:"options,omitempty"` // answers to choose from; the user may give another
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
	StatusBudget       Status = "budget"         // the budget of tokens is spent
	StatusTruncated    Status = "truncated"      // the token limit cut off two answers in a row
	StatusEmpty        Status = "empty"          // the model answered nothing, twice
	StatusStuck        Status = "stuck"          // the same calls gave the same results five times in a row
	StatusContextFull  Status = "context_full"   // the conversation exceeds the model's window
	StatusFailed       Status = "failed"         // the model call failed, or the runtime cannot start
)
