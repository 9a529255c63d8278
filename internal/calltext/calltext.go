// Package calltext finds tool calls that a model wrote as text, in the
// templates of common model families, and parses those that cannot be anything
// else. Such a call is a sign that the server has no tool call parser for its
// model.
package calltext

import (
	"regexp"
	"strings"
)

// forms match written calls. The group of each is the tool's name.
var forms = []*regexp.Regexp{
	// <tool_call>{"name": "bash", … (Hermes, Qwen), <tool_call>bash (GLM),
	// [TOOL_CALLS][{"name": "bash", … or [TOOL_CALLS]bash (Mistral),
	// <|python_tag|>{"name": … (Llama), functools[{"name": … (Phi).
	regexp.MustCompile(`(?:<\|?tool_calls?(?:_begin)?\|?>|\[TOOL_CALLS\]|<\|python_tag\|>|functools)\s*[\[{]*\s*(?:"name"\s*:\s*)?"?([\w.-]+)`),
	// The same, with the arguments before the name.
	regexp.MustCompile(`<\|?tool_call\|?>[^<]*"name"\s*:\s*"([\w.-]+)"`),
	// <function=bash> (Llama, Qwen coder), <invoke name="bash"> (Anthropic).
	regexp.MustCompile(`<function=["']?([\w.-]+)`),
	regexp.MustCompile(`<(?:\w+:)?invoke name="([\w.-]+)"`),
	// {"name": "bash", "arguments": {…}}, bare or in a code fence, with fields
	// such as "type" before the name.
	regexp.MustCompile(`\{\s*(?:"(?:type|id)"\s*:\s*"[^"]*"\s*,\s*)*"(?:name|tool|tool_name|function)"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters|args|input|tool_input)"\s*:`),
	regexp.MustCompile(`"function"\s*:\s*\{\s*"name"\s*:\s*"([\w.-]+)"\s*,\s*"arguments"\s*:`),
}

// In returns the tool of which text contains a written call, complete or not, and
// "" if there is none. known reports whether there is a tool of a name.
func In(text string, known func(name string) bool) string {
	const enough = 64 << 10 // models write calls at the start or the end of a text
	if len(text) > 2*enough {
		text = text[:enough] + text[len(text)-enough:]
	}
	if !strings.ContainsAny(text, "<{") && !strings.Contains(text, "[TOOL_CALLS]") && !strings.Contains(text, "functools") {
		return "" // known without the expressions, which are slow
	}
	seen := map[string]bool{}
	for _, form := range forms {
		for _, match := range form.FindAllStringSubmatch(text, -1) {
			name := match[1]
			if len(name) > maxName || seen[name] {
				continue
			}
			if seen[name] = true; known(name) {
				return name
			}
		}
	}
	return ""
}
