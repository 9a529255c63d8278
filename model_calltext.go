package pygent

import (
	"regexp"
	"slices"
)

// toolCallForms match tool calls that a model wrote as text, in the templates
// of common model families, when the server did not turn them into calls. The
// group is the tool's name.
var toolCallForms = []*regexp.Regexp{
	// <tool_call>{"name": "bash", … (Hermes, Qwen), <tool_call>bash (GLM),
	// [TOOL_CALLS][{"name": "bash", … or [TOOL_CALLS]bash (Mistral),
	// <|python_tag|>{"name": … (Llama), functools[{"name": … (Phi).
	regexp.MustCompile(`(?:<\|?tool_calls?(?:_begin)?\|?>|\[TOOL_CALLS\]|<\|python_tag\|>|functools)\s*[\[{]*\s*(?:"name"\s*:\s*)?"?([\w.-]+)`),
	// The same with the arguments before the name.
	regexp.MustCompile(`<\|?tool_call\|?>[^<]*"name"\s*:\s*"([\w.-]+)"`),
	// <function=bash> (Llama, Qwen coder), <invoke name="bash"> (Anthropic).
	regexp.MustCompile(`<function=["']?([\w.-]+)`),
	regexp.MustCompile(`<(?:\w+:)?invoke name="([\w.-]+)"`),
	// {"name": "bash", "arguments": {…}}, bare or in a code fence, with fields
	// such as "type" before the name.
	regexp.MustCompile(`\{\s*(?:"(?:type|id)"\s*:\s*"[^"]*"\s*,\s*)*"(?:name|tool|tool_name|function)"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters|args|input|tool_input)"\s*:`),
	regexp.MustCompile(`"function"\s*:\s*\{\s*"name"\s*:\s*"([\w.-]+)"\s*,\s*"arguments"\s*:`),
}

// looksLikeToolCallText reports whether text holds a call of one of the tools,
// written out instead of made. The agent tells people of it then: it is a sign
// of a server without a tool call parser for its model.
func looksLikeToolCallText(text string, tools []ToolSpec) bool {
	const enough = 64 << 10 // calls stand at the start or the end of what models write
	if len(text) > 2*enough {
		text = text[:enough] + text[len(text)-enough:]
	}
	for _, form := range toolCallForms {
		for _, match := range form.FindAllStringSubmatch(text, -1) {
			if slices.ContainsFunc(tools, func(t ToolSpec) bool { return t.Name == match[1] }) {
				return true
			}
		}
	}
	return false
}
