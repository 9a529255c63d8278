// Package window knows how many tokens the context windows of known models hold.
// It also reads them from what servers say.
package window

import "strings"

// known are the windows of models by the beginnings of their names, the longer
// ones first. Only names are listed by which a vendor serves the model itself:
// what runs on a server of one's own has the window that the server gives it, and
// tells. Sources: platform.openai.com/docs/models for OpenAI's,
// docs.anthropic.com/en/docs/about-claude/models for Claude,
// ai.google.dev/gemini-api/docs/models for Gemini, docs.x.ai/docs/models for Grok,
// and api-docs.deepseek.com for DeepSeek.
var known = []struct {
	name   string
	tokens int64
	input  int64 // how many of them a request may have, if that is fewer
}{
	{"gpt-5-chat", 128_000, 0},
	{"gpt-5", 400_000, 272_000}, // the sum of input and answer: anomalyco/models.dev#851
	{"gpt-5.1", 400_000, 272_000},
	{"gpt-5.2", 400_000, 272_000},
	{"gpt-5.3", 400_000, 272_000},
	{"gpt-5.4", 400_000, 272_000}, // it holds more, but each token costs more beyond
	{"gpt-5.5", 400_000, 272_000},
	{"gpt-4.1", 1_047_576, 0},
	{"gpt-4o", 128_000, 0},
	{"gpt-4-turbo", 128_000, 0},
	{"o4-mini", 200_000, 0},
	{"o3-mini", 200_000, 0},
	{"o3", 200_000, 0},
	{"o1", 200_000, 0},
	{"claude-", 200_000, 0},
	{"gemini-2.0-flash", 1_048_576, 0},
	{"gemini-2.5-", 1_048_576, 0},
	{"gemini-3-", 1_048_576, 0},
	{"grok-4", 256_000, 0},
	{"grok-code-fast-1", 256_000, 0},
	{"deepseek-chat", 128_000, 0},
	{"deepseek-reasoner", 128_000, 0},
}

// Of returns the window of the model of a name, in tokens; 0 if it is not known.
// The name may have the provider's in front, as in "openai/gpt-4.1".
func Of(model string) int64 {
	tokens, _ := find(model)
	return tokens
}

// Input returns how many tokens a request to the model may have; 0 if that is not
// known.
func Input(model string) int64 {
	_, input := find(model)
	return input
}

func find(model string) (tokens, input int64) {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	for _, k := range known {
		if rest, ok := strings.CutPrefix(model, k.name); ok && (rest == "" || strings.HasSuffix(k.name, "-") || rest[0] == '-') {
			if k.input == 0 {
				return k.tokens, k.tokens
			}
			return k.tokens, k.input
		}
	}
	return 0, 0
}
