package chat

import (
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/looptext"
)

// HistoryEntry is one entry of a history: a message with what is known about
// it, or a mark between messages, in which Message has no role. Only the message
// is ever sent to a model. Its JSON is meant to be stored.
//
// A mark without any of the fields for marks is one that a later version of this
// package made. Skip it; stores keep it. A message with content but without a role
// is none: loading it is an error.
type HistoryEntry struct {
	// Seq is the number of the entry: 0 for the system message at the beginning,
	// and from 1 for all others. It never changes while the history is open.
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time,omitzero"` // when a run added it; zero if that is not known
	Message Message   `json:"message,omitzero"`
	Source  Source    `json:"source,omitempty"`  // who wrote a message in the user's role; empty if that is not known
	Outcome Outcome   `json:"outcome,omitempty"` // how the call ended whose result the message is; empty if that is not known
	// Bash is how a command of the tool bash ended whose result the message is. It
	// lacks the command and the output, which the messages have.
	Bash *BashResult `json:"bash,omitempty"`
	// Usage is what the provider counted for a message of the model, Model is what was
	// asked for it, and Weight the size of that request, about its bytes. By the last of
	// them a resumed session knows how long a token is. They are zero if not known.
	Usage  Usage  `json:"usage,omitzero"`
	Model  string `json:"model,omitempty"`
	Weight int    `json:"weight,omitempty"`

	Turn *TurnEnd     `json:"turn,omitempty"` // the mark of the end of a run
	Info *HistoryInfo `json:"info,omitempty"` // the mark of a call of SetInfo
	// Compaction is the mark of what made the conversation before it shorter for
	// the model. The messages themselves stay.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Rewind is the mark from which the conversation goes on as it was earlier.
	Rewind *Rewind `json:"rewind,omitempty"`
}

// HistoryInfo describes a history for people who choose one from a list.
type HistoryInfo struct {
	Title string `json:"title,omitempty"`
	Dir   string `json:"dir,omitempty"` // the directory that the conversation is about

	// The times of the first and of the last entry whose time is known. SetInfo
	// ignores them.
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
}

// TurnEnd says how a run of an agent ended. Its duration is in seconds in JSON.
type TurnEnd struct {
	Status    Status        `json:"status"`
	Reason    string        `json:"reason,omitempty"` // the status in words, if there is more to say
	Steps     int           `json:"steps"`
	Usage     Usage         `json:"usage"`               // of the agent itself
	TaskUsage Usage         `json:"task_usage,omitzero"` // of the tasks that it delegated
	Elapsed   time.Duration `json:"-" seconds:"elapsed_seconds"`
}

// MarshalJSON encodes the elapsed time in seconds.
func (t TurnEnd) MarshalJSON() ([]byte, error) {
	type plain TurnEnd
	return jsonobj.MarshalSeconds(plain(t))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *TurnEnd) UnmarshalJSON(data []byte) error {
	type plain TurnEnd
	return jsonobj.UnmarshalSeconds(data, (*plain)(t))
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
	StatusEmpty        Status = "empty"          // the model gave two empty answers
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

// Source says who wrote a message in the user's role.
type Source string

// Who writes messages in the user's role.
const (
	SourceUser   Source = "user"   // the user, or the program that runs the agent
	SourceNudge  Source = "nudge"  // the agent, to keep the model going: after an empty answer, say, or at a limit
	SourceNotice Source = "notice" // the agent, about background work that ended, or what it found where it works
	SourceImages Source = "images" // the agent, to show the images and files of tools' results
)

// IsMark reports whether the entry is a mark between messages.
func (e *HistoryEntry) IsMark() bool { return e.Message.Role == "" }

// Clone returns a copy that shares nothing that can change.
func (e HistoryEntry) Clone() HistoryEntry {
	e.Message = e.Message.Clone()
	e.Turn, e.Info, e.Compaction, e.Rewind, e.Bash = copied(e.Turn), copied(e.Info), copied(e.Compaction), copied(e.Rewind), copied(e.Bash)
	if e.Bash != nil {
		e.Bash.Refused = slices.Clone(e.Bash.Refused)
	}
	return e
}

// copied returns a copy of what p points to, if it is not nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// changesConversation reports whether a mark changes what the model is sent.
func (e *HistoryEntry) changesConversation() bool { return e.Compaction != nil || e.Rewind != nil }

// alike reports whether two entries are the same one, of which one was stored
// and read again. A store may change how the JSON of unknown fields is written.
func alike(a, b HistoryEntry) bool {
	if a.IsMark() || b.IsMark() {
		return a.IsMark() == b.IsMark()
	}
	m, n := a.Message, b.Message
	return m.Role == n.Role && strings.ToValidUTF8(m.Text(), "\ufffd") == strings.ToValidUTF8(n.Text(), "\ufffd") &&
		m.ToolCallID == n.ToolCallID && len(m.Parts) == len(n.Parts) &&
		slices.EqualFunc(m.ToolCalls, n.ToolCalls, func(c, d ToolCall) bool { return c.ID == d.ID && c.Name == d.Name })
}

// messagesOf returns the messages among entries.
func messagesOf(entries []HistoryEntry) []Message {
	messages := make([]Message, 0, len(entries))
	for i := range entries {
		if !entries[i].IsMark() {
			messages = append(messages, entries[i].Message)
		}
	}
	return messages
}

// systemOf returns the system message with which entries begin. It has no role
// if there is none.
func systemOf(entries []HistoryEntry) Message {
	if len(entries) == 0 || entries[0].Message.Role != RoleSystem {
		return Message{}
	}
	return entries[0].Message
}

// present is 1 for a message, and 0 for one without a role.
func present(m Message) int {
	if m.Role == "" {
		return 0
	}
	return 1
}

// withSystem returns a copy of entries that begins with system, or with no
// system message if that has no role.
func withSystem(entries []HistoryEntry, system HistoryEntry) []HistoryEntry {
	rest := entries[present(systemOf(entries)):]
	return slices.Concat([]HistoryEntry{system}[:present(system.Message)], rest)
}

// IsOfUser reports whether the message is what the user said. Where its source is not
// known, its text tells.
func (e *HistoryEntry) IsOfUser() bool {
	return e.Message.Role == RoleUser && isOfUser(e.Message, e.Source)
}

// isOfUser reports whether the user said a message of the user's role. Where its
// source is not known, its text tells.
func isOfUser(m Message, source Source) bool {
	return source == SourceUser || source == "" && !looptext.SaysGoOn(m.Text()) && !isOfTools(m) && !compact.IsMessage(m.Text())
}
