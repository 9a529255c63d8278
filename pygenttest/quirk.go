package pygenttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// Quirk is a way in which real servers get an answer wrong. Give quirks to a
// reply with [Reply.WithQuirks]:
//
//	pygenttest.Call("bash", args).WithQuirks(pygenttest.QuirkRepeatedName)
//
// Quirks of the message work in a [ScriptedModel] too. Quirks of the wire work
// only in a [Server]. A quirk that the Responses API cannot have does nothing
// there.
type Quirk string

// Quirks of the wire. A careful client reads the same message as without them.
const (
	// QuirkRepeatedName repeats id, type and name in every chunk of a call.
	QuirkRepeatedName Quirk = "repeated-name"
	// QuirkNoIndex streams each tool call in one chunk, without its index.
	QuirkNoIndex Quirk = "no-index"
	// QuirkSameIndex streams each tool call in one chunk, all with index 0.
	QuirkSameIndex Quirk = "same-index"
	// QuirkObjectArguments sends arguments as an object instead of a string.
	QuirkObjectArguments Quirk = "object-arguments"
	// QuirkChangingID gives each chunk of a stream another response id.
	QuirkChangingID Quirk = "changing-id"
	// QuirkCumulativeUsage sends in every chunk the usage so far.
	QuirkCumulativeUsage Quirk = "cumulative-usage"
	// QuirkTrailingChunk sends an empty chunk after the one with the finish reason.
	QuirkTrailingChunk Quirk = "trailing-chunk"
	// QuirkNoDone ends the stream after the finish reason without "[DONE]".
	QuirkNoDone Quirk = "no-done"
	// QuirkKeepAlive puts comment lines between the events of a stream.
	QuirkKeepAlive Quirk = "keep-alive"
	// QuirkNullFields sends absent fields as null in every chunk.
	QuirkNullFields Quirk = "null-fields"
	// QuirkOneChunk streams the message and its finish reason in one chunk.
	QuirkOneChunk Quirk = "one-chunk"
	// QuirkUnnamedEnd leaves the finish reason out of a stream, which ends with the
	// usage and "[DONE]" (Snowflake Cortex).
	QuirkUnnamedEnd Quirk = "unnamed-end"
	// QuirkRepeatedReason gives the finish reason beside each piece of the message, too
	// (Open WebUI).
	QuirkRepeatedReason Quirk = "repeated-reason"
	// QuirkTwoChoices gives the text in one choice and the calls in another (Copilot).
	QuirkTwoChoices Quirk = "two-choices"
	// QuirkCumulativeArguments sends in each chunk of a call all of its arguments so far
	// (Baidu Qianfan).
	QuirkCumulativeArguments Quirk = "cumulative-arguments"
	// QuirkRepeatedArguments sends the arguments of a call once more at its end, encoded
	// twice (LiteLLM).
	QuirkRepeatedArguments Quirk = "repeated-arguments"
	// QuirkOddDone ends a stream with "[done]", which is no chunk.
	QuirkOddDone Quirk = "odd-done"
)

// QuirkStaysOpen sends comments without end after the answer, instead of the usage
// and "[DONE]". A careful client waits for a moment, so it is in none of the lists.
const QuirkStaysOpen Quirk = "stays-open"

// QuirkEndless repeats the first piece of a stream without end, as a model does that is
// caught in a loop. A careful client ends it, so it is in none of the lists.
const QuirkEndless Quirk = "endless"

// Quirks of the message, and streams that are broken. A careful client
// survives them.
const (
	// QuirkNoFinishReason leaves out the finish reason and everything after it in
	// a stream. The message is incomplete, but the connection ends normally.
	QuirkNoFinishReason Quirk = "no-finish-reason"
	// QuirkDoneAlone leaves the finish reason and the usage out of a stream, which ends
	// with "[DONE]", as it may after a proxy lost its upstream.
	QuirkDoneAlone Quirk = "done-alone"
	// QuirkThinkTags writes the reasoning into the text, between <think> tags.
	QuirkThinkTags Quirk = "think-tags"
	// QuirkNoChoices answers with an empty list of choices.
	QuirkNoChoices Quirk = "no-choices"
	// QuirkNoCallIDs leaves out the ids of tool calls.
	QuirkNoCallIDs Quirk = "no-call-ids"
	// QuirkDuplicateCallIDs gives all tool calls of a message the same id.
	QuirkDuplicateCallIDs Quirk = "duplicate-call-ids"
	// QuirkInvalidArguments cuts off the end of arguments, so that they are not
	// JSON.
	QuirkInvalidArguments Quirk = "invalid-arguments"
	// QuirkContentFilter empties the message, with the finish reason
	// "content_filter".
	QuirkContentFilter Quirk = "content-filter"
	// QuirkCallsAsText writes the tool calls into the text, as a server without a parser
	// for them does. Text of a server that has delivered a call is no call any more.
	QuirkCallsAsText Quirk = "calls-as-text"
	// QuirkFinishStop ends a message that calls tools with "stop".
	QuirkFinishStop Quirk = "finish-stop"
	// QuirkUnknownFields adds fields that the chat format does not define:
	// reasoning_content and reasoning_details in the message, others around it.
	QuirkUnknownFields Quirk = "unknown-fields"
)

// Forms of the error that [Reply.FailAfter] sends.
const (
	// QuirkErrorLine sends the error of a stream in a field of its own, "error:"
	// (llama.cpp).
	QuirkErrorLine Quirk = "error-line"
	// QuirkBareError sends the error without "error" around it, as gateways do: code,
	// msg and success.
	QuirkBareError Quirk = "bare-error"
	// QuirkBaseResp sends the error as MiniMax does, in base_resp.
	QuirkBaseResp Quirk = "base-resp"
)

// What [Reply.FailAfter] sends in a stream of the Responses API instead of the event
// response.failed, or in one of chat completions as an event of a name.
const (
	// QuirkErrorEvent sends an event "error" in its documented form.
	QuirkErrorEvent Quirk = "error-event"
	// QuirkNestedError sends an event "error" with an object of that name.
	QuirkNestedError Quirk = "nested-error"
)

// Quirks returns all quirks of chat completions, for tests that try each of them.
func Quirks() []Quirk {
	return append(WireQuirks(),
		QuirkNoFinishReason, QuirkDoneAlone, QuirkNoChoices, QuirkNoCallIDs, QuirkDuplicateCallIDs, QuirkInvalidArguments,
		QuirkContentFilter, QuirkCallsAsText, QuirkFinishStop, QuirkUnknownFields, QuirkThinkTags)
}

// WireQuirks returns the quirks under which a careful client reads the same
// message, finish reason and usage as without them.
func WireQuirks() []Quirk {
	return []Quirk{
		QuirkRepeatedName, QuirkNoIndex, QuirkSameIndex, QuirkObjectArguments, QuirkChangingID,
		QuirkCumulativeUsage, QuirkTrailingChunk, QuirkNoDone, QuirkKeepAlive, QuirkNullFields, QuirkOneChunk,
		QuirkUnnamedEnd, QuirkRepeatedReason, QuirkTwoChoices, QuirkCumulativeArguments, QuirkRepeatedArguments, QuirkOddDone,
	}
}

// spoil applies a quirk of the message to resp. No other message shares its
// calls.
func (q Quirk) spoil(resp *pygent.ChatResponse) {
	m := &resp.Message
	switch q {
	case QuirkNoCallIDs:
		for i := range m.ToolCalls {
			m.ToolCalls[i].ID = ""
		}
	case QuirkDuplicateCallIDs:
		for i := range m.ToolCalls {
			m.ToolCalls[i].ID = m.ToolCalls[0].ID
		}
	case QuirkInvalidArguments:
		for i := range m.ToolCalls {
			call := &m.ToolCalls[i]
			call.Arguments = strings.TrimSuffix(call.Arguments, "}")
		}
	case QuirkContentFilter:
		*m = chat.AssistantMessage("")
		resp.FinishReason = chat.FinishFilter
	case QuirkCallsAsText:
		for _, call := range m.ToolCalls {
			m.Content += fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", call.Name, call.Arguments)
		}
		m.ToolCalls = nil
	case QuirkThinkTags:
		var thoughts string
		if json.Unmarshal(m.Extra[reasoningField], &thoughts) == nil {
			m.Content = "<think>\n" + thoughts + "\n</think>\n\n" + m.Content
		}
		m.Extra = maps.Clone(m.Extra)
		delete(m.Extra, reasoningField)
	case QuirkFinishStop:
		resp.FinishReason = chat.FinishStop
	case QuirkUnknownFields:
		spoiled := Message(*m).
			WithReasoning("The user wants this done.").
			WithExtra("reasoning_details", []object{{"type": "reasoning.text", "text": "The user wants this done.", "format": "unknown", "index": 0}})
		m.Extra = spoiled.message.Extra
	}
}
