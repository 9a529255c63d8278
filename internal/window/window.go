// Package window knows how many tokens the context windows of known models hold.
package window

import "strings"

// known are the windows of models by the beginnings of their names, the longer
// ones first. Sources: platform.openai.com/docs/models for OpenAI's,
// docs.anthropic.com/en/docs/about-claude/models for Claude, and
// ai.google.dev/gemini-api/docs/models for Gemini.
var known = []struct {
	name   string
	tokens int64
}{
	{"gpt-5-chat", 128_000},
	{"gpt-5", 400_000},
	{"gpt-4.1", 1_047_576},
	{"gpt-4o", 128_000},
	{"gpt-4-turbo", 128_000},
	{"o4-mini", 200_000},
	{"o3-mini", 200_000},
	{"o3", 200_000},
	{"claude-", 200_000},
	{"gemini-2.5-", 1_048_576},
}

// Of returns the window of the model of a name, in tokens; 0 if it is not known.
// The name may have the provider's in front, as in "openai/gpt-4.1".
func Of(model string) int64 {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, k := range known {
		if rest, ok := strings.CutPrefix(model, k.name); ok && (rest == "" || strings.HasSuffix(k.name, "-") || rest[0] == '-') {
			return k.tokens
		}
	}
	return 0
}
