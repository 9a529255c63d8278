package openai

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// otherForm returns the change that sends the same content in another form, if
// the server refuses the current form.
func (c *call) otherForm(api *Error) (change, bool) {
	switch api.Status {
	case 0, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return change{}, false
	}
	a := c.adaptation
	if role := refusedOrder(api); role != "" && !a.bridged[role] {
		return change{adaptation{bridged: map[string]bool{role: true, roleTool: true}},
			"put an assistant message before the user's: the server takes no other order", true}, true
	}
	if !a.noSystem && c.refusesSystem(api) {
		return change{adaptation{noSystem: true}, "put the system message into the user's first one: the model has no system role", true}, true
	}
	if refusesIDs(api) && !a.shortIDs {
		return change{adaptation{shortIDs: true}, "sent the ids of tool calls as nine letters and digits: the server does not take those of the model that made them", true}, true
	}
	if !c.inResponses() && !a.thoughts && missesReasoning(api) {
		return change{adaptation{thoughts: true}, "sent an empty reasoning_content where a call has none: the server wants the field", true}, true
	}
	if !c.inResponses() && !a.signed && strings.Contains(api.Message, "thought_signature") && strings.Contains(api.Message, "missing") {
		return change{adaptation{signed: true}, "signed the calls of other models with a stand-in: the server wants a signature", true}, true
	}
	if c.inResponses() && !a.noReasoning && refusesReasoning(api) {
		return change{adaptation{noReasoning: true}, "left earlier reasoning out: the server does not accept it", true}, true
	}
	if c.wantsParameters(api) && !a.emptySchema {
		return change{adaptation{emptySchema: true}, "sent an empty schema for tools without arguments: the server wants one", true}, true
	}
	return change{}, false
}

// refusedOrder returns the role after which the server accepts no user message,
// or "" if the error is about something else. The words are those of Mistral
// (hosted, and in vLLM) and of the chat templates of Mistral and Gemma.
func refusedOrder(api *Error) string {
	message := strings.ToLower(api.Message)
	switch {
	case strings.Contains(message, "unexpected role 'user' after role 'tool'"):
		return roleTool
	case strings.Contains(message, "roles must alternate"):
		return roleUser
	}
	return ""
}

// refusesIDs reports whether the error is about the ids of calls. Mistral
// refuses their form, and OpenAI those of other providers that are too long.
func refusesIDs(api *Error) bool {
	message := strings.ToLower(api.Message)
	return strings.Contains(message, "tool call id") && (strings.Contains(message, "length of 9") || strings.Contains(message, "length 9")) ||
		strings.Contains(message, "string too long") && longID.MatchString(message)
}

// longID is how OpenAI names the id of a call, in its two APIs.
var longID = regexp.MustCompile(`\btool_calls\[\d+\]\.id\b|\btool_call_id\b|\bcall_id\b`)

// missesReasoning reports whether the error is about a call without the
// reasoning that led to it. Calls that another model made have none. The words
// are those of DeepSeek and Moonshot.
func missesReasoning(api *Error) bool {
	message := strings.ToLower(api.Message)
	return strings.Contains(message, "reasoning_content") &&
		(strings.Contains(message, "missing") || strings.Contains(message, "must be passed back"))
}

// The texts of servers that require the parameters of a tool: TabbyAPI, older
// Azure, and gateways to Anthropic and to Bedrock.
var (
	schemaWords  = regexp.MustCompile(`(?i)\b(parameters|input_?schema)\b`)
	missingWords = regexp.MustCompile(`(?i)\b(required|missing|undefined|must be|must have|expected|none)\b`)
)

// wantsParameters reports whether the error may be about tools that have no
// parameters.
func (c *call) wantsParameters(api *Error) bool {
	if c.inResponses() || !slices.ContainsFunc(c.req.Tools, func(t Tool) bool { return len(t.Parameters) == 0 }) {
		return false
	}
	text := api.Message + " " + paramOf(api)
	return schemaWords.MatchString(text) && missingWords.MatchString(text) && api.Code != "invalid_function_parameters"
}

// unsupportedWords tell that a parameter is not supported at all;
// wrongValueWords tell that only its value is wrong.
var (
	unsupportedWords = []string{
		"unsupported", "not supported", "not support", "unrecognized", "unrecognised", "not recognized", "unknown",
		"unexpected", "extra inputs", "extra_forbidden", "extra fields", "not permitted", "not allowed", "not accept",
		"additional propert", "deprecated", "not available", "cannot be used", "can't be used", "not compatible",
		"incompatible", "no longer", "not implemented", "cannot be specified", "invalid parameter", "invalid field",
	}
	wrongValueWords = []string{"supported values", "must be one of", "expected one of", "valid values", "possible values", "allowed values"}
)

// mayGo reports whether a parameter that an error names may be left out. One
// that the client sets itself may. One that the user set may only if the server
// does not support it at all: a wrong value is for the user to correct.
func (c *call) mayGo(param string, api *Error) bool {
	if !c.inResponses() && wantsResponses(api) {
		return false // it is the API that is refused
	}
	switch param {
	case "stream_options", "include", toolChoice: // not store: a server that is not told keeps what it gets
		if _, given := c.client.params[param]; !given {
			return true
		}
	}
	return notTaken(api)
}

// notTaken reports whether an error says that something is not supported,
// rather than wrong or missing.
func notTaken(api *Error) bool {
	text := strings.ToLower(api.Code + " " + api.Message)
	says := func(word string) bool { return strings.Contains(text, word) }
	return slices.ContainsFunc(unsupportedWords, says) && !slices.ContainsFunc(wrongValueWords, says)
}
