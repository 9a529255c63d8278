package chat

import "encoding/json"

// Request is what an agent asks of a pygent.Model.
type Request struct {
	// Model names the model to use, as the provider calls it. Empty means the
	// Model's own default.
	Model string
	// Messages is the conversation, system message first. From one step to the
	// next it only grows at its end, so that providers can cache the prefix.
	Messages []Message
	// Tools are the tools the model may call, sorted by name.
	Tools []ToolSpec
	// MustCall asks for an answer that calls a tool. A model that cannot do so ignores it.
	MustCall bool
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`

	// Parameters is a JSON Schema of type object with at least one property, in
	// a form that every provider accepts; empty for a tool without arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Response is a model's answer.
type Response struct {
	Message      Message
	FinishReason FinishReason
	Usage        Usage
	Model        string // the model that answered, as the server names it; may be empty
	ID           string // the server's id of the response; may be empty

	// Cost is what the answer costs, if the provider says so, as OpenRouter does;
	// nil means it says nothing. A price of pygent.WithPrices goes before it.
	Cost *float64
}

// FinishReason says why a model ended its message, in the words of OpenAI's
// chat completions API. The words of other servers are translated; those that are not
// known are passed through, and count as [FinishStop].
type FinishReason string

// The finish reasons that the agent tells apart.
const (
	FinishStop      FinishReason = "stop"           // the message is complete
	FinishToolCalls FinishReason = "tool_calls"     // the message calls tools
	FinishLength    FinishReason = "length"         // the token limit cut it off
	FinishFilter    FinishReason = "content_filter" // the provider withheld content
)

// Delta is a piece of an answer that is still being written.
type Delta struct {
	// Withdrawn takes back all text and reasoning emitted so far in this call,
	// before the rest of this Delta is added: a model that answers in place of
	// another begins anew. Notice then says why. It becomes a pygent.EventRetry.
	Withdrawn bool

	Text      string     // appended to the message's text
	Reasoning string     // appended to the model's visible reasoning
	Call      *CallDelta // how far a call has arrived
	Notice    string     // for people: what the model's adapter changed, such as "dropped parameter temperature"
}

// CallDelta says how far a tool call has arrived that a model is writing. The
// message that follows holds the call.
type CallDelta struct {
	Index int    `json:"index"`          // of the call in the message, from 0
	ID    string `json:"id,omitempty"`   // of the call, as the server named it; the message may name it differently
	Tool  string `json:"tool,omitempty"` // its name
	Bytes int    `json:"bytes"`          // of its arguments so far
	Path  string `json:"path,omitempty"` // its argument "path" or "file", once it has arrived
}

// Usage counts tokens, as the provider reports them. Zero means not reported. A
// count that cannot be true is not taken over.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CachedTokens     int64 `json:"cached_tokens,omitempty"`      // part of PromptTokens: read from the provider's cache
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"` // part of PromptTokens: written to it
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"`   // part of CompletionTokens

	// Cost is what the tokens cost, by pygent.WithPrices or else as the provider says;
	// 0 if that is not known. An agent sets it: in a [Response] it is ignored.
	// The unit is that of the prices.
	Cost float64 `json:"cost,omitempty"`
}

// Total is the number of tokens of prompts and completions together.
func (u Usage) Total() int64 { return u.PromptTokens + u.CompletionTokens }

// Add returns the sum of both usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		PromptTokens:     u.PromptTokens + v.PromptTokens,
		CompletionTokens: u.CompletionTokens + v.CompletionTokens,
		CachedTokens:     u.CachedTokens + v.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		Cost:             u.Cost + v.Cost,
	}
}
