package openai

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/x/pygent/internal/openai/chatstream"
)

// Ending is how an answer ended, in the words of chat completions.
type Ending string

// The endings that matter to whoever asked.
const (
	Stopped   Ending = "stop"           // the answer is whole
	Called    Ending = "tool_calls"     // so it is, and calls tools
	CutOff    Ending = "length"         // there was no room for the rest
	Filtered  Ending = "content_filter" // the provider withheld some of it, or all
	BrokenOff Ending = "error"          // something failed: the model can be asked again
)

// endings are the words by which servers say how an answer ended, in lower case and
// without what separates their parts. docs/providers.md says whose they are.
var endings = words(map[Ending]string{
	Stopped: `stop end_turn stop_sequence stop_sequences stop_token eos eos_token eos_found end_of_sequence end_of_text
		complete completed done finished finish end success normal pause_turn`,
	Called: `tool_calls tool_call tool_use function_call function_calls`,
	CutOff: `length max_length length_limit max_tokens max_token max_output_tokens max_completion_tokens max_new_tokens token_limit
		model_length model_context_window_exceeded context_window_exceeded context_length_exceeded context_length
		max_context_length error_limit truncated`,
	Filtered: `content_filter content_filtered content_filtering content_blocked content_policy_violation safety recitation
		blocklist prohibited_content spii language image_safety image_prohibited_content image_recitation sensitive
		sensitive_content guardrail_intervened guardrails model_armor refusal error_toxic moderation blocked flagged`,
	BrokenOff: `error abort aborted cancel cancelled canceled user_cancel network_error insufficient_system_resource failed failure
		fail timeout internal_error server_error repetition malformed_function_call unexpected_tool_call too_many_tool_calls
		malformed_response`,
})

func words(by map[Ending]string) map[string]Ending {
	known := map[string]Ending{}
	for ending, list := range by {
		for _, word := range strings.Fields(list) {
			known[foldWord(word)] = ending
		}
	}
	return known
}

// EndingOf returns how an answer ended by its finish reason, in any server's words. An
// unknown word is returned as it is, and counts as a whole answer: a server that breaks
// off says so in words that others use too, or gives none.
func EndingOf(word string) (ending Ending, known bool) {
	folded := foldWord(word)
	for _, prefix := range []string{"finishreason", "functioncallfilter"} { // Gemini's, and its endpoint for chat completions
		folded = strings.TrimPrefix(folded, prefix)
	}
	if ending, known = endings[folded]; known {
		return ending, true
	}
	return Ending(word), word == ""
}

// foldWord takes out of a word what servers spell differently.
func foldWord(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, word)
}

// Broken is the error of an answer that a server broke off, by its own word.
func Broken(word string) *Error {
	e := &Error{
		Status:    http.StatusOK,
		Code:      word,
		Message:   fmt.Sprintf("the server broke the answer off (finish_reason %q)", word),
		Retryable: true,
	}
	if folded := foldWord(word); strings.Contains(folded, "functioncall") || strings.Contains(folded, "toolcall") {
		e.Err = &Mistake{Why: word}
	}
	return e
}

// end gives an answer the finish reason that all its choices together have, in the words
// of chat completions. The error is about an answer that is to be asked for again.
func (c *call) end(answer *chatstream.Answer) error {
	for _, word := range answer.Reasons {
		ending, known := EndingOf(word)
		switch {
		case ending == BrokenOff:
			return Broken(word)
		case ending == CutOff, ending == Filtered && answer.FinishReason != string(CutOff):
			answer.FinishReason = string(ending)
		case !known && c.client.tells(word):
			c.notice(fmt.Sprintf("the server ends an answer with the unknown finish_reason %q, which is taken for a whole one", word))
		}
	}
	if ending, known := EndingOf(answer.FinishReason); known {
		answer.FinishReason = string(ending)
	}
	if answer.Unread > 0 && c.client.tells("n") {
		c.notice(fmt.Sprintf("the first of %d answers counts: several were asked for (n)", answer.Unread+1))
	}
	if answer.Halves > 0 {
		c.notice("a part of the answer was left out: the stream broke off before it ended")
	}
	c.client.noteReason(c, answer)
	return nil
}

// notice tells people something, if anybody listens.
func (c *call) notice(text string) {
	if c.emit != nil {
		c.emit(Delta{Notice: text})
	}
}

// habits is what is known of how a model's answers begin and end.
type habits struct {
	given    bool   // the server has given a finish reason
	unproven int    // answers without one that ended with nothing but [DONE]
	closing  string // the tag that closes its thoughts, which have no opening one; empty for others
}

// trustsDone reports whether an answer of a model may end with nothing but [DONE]: one
// has before, and none has ever had a finish reason. A server that lost the model for
// a moment gives one to the next answer.
func (c *Client) trustsDone(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.habits[name]
	return known.unproven > 0 && !known.given
}

// noteUnproven remembers an answer that ended with nothing but [DONE].
func (c *Client) noteUnproven(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.habits[name]
	known.unproven++
	c.habits[name] = known
}

// noteReason remembers whether an answer had a finish reason, and tells once if it had
// none, although the one before ended in the same way.
func (c *Client) noteReason(of *call, answer *chatstream.Answer) {
	c.mu.Lock()
	known := c.habits[of.name]
	tell := answer.Unnamed && known.unproven == 1 && !known.given
	switch {
	case tell:
		known.unproven++
	case len(answer.Reasons) > 0:
		known.given = true
	}
	c.habits[of.name] = known
	c.mu.Unlock()
	if tell {
		of.notice(fmt.Sprintf("%s gives no finish_reason: its answers are taken for whole when they end with [DONE]", c.baseURL))
	}
}

// tells reports whether something was not told before.
func (c *Client) tells(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	const enough = 64
	if c.told[what] || len(c.told) == enough {
		return false
	}
	c.told[what] = true
	return true
}
