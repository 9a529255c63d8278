package window

import (
	"regexp"
	"strconv"
	"strings"
)

// The limits that errors name. Sources:
//
//   - "This model's maximum context length is 8192 tokens. However, …": OpenAI,
//     vLLM, Azure, DeepSeek
//   - "Input tokens exceed the configured limit of 272,000 tokens": OpenAI, for
//     GPT-5
//   - "prompt is too long: 210000 tokens > 200000 maximum", "exceed context limit:
//     189136 + 20000 > 204648": Anthropic (anthropics/claude-code#408)
//   - "the request exceeds the available context size (4096 tokens)", n_ctx: llama.cpp
//   - "This endpoint's maximum context length is 131072 tokens": OpenRouter
//   - "The input token count (1200000) exceeds the maximum number of tokens allowed
//     (1048576)": Gemini
//   - "This model's maximum prompt length is 131072 but the request contains …": xAI
//   - "the model is loaded with context length of only 32768 tokens": LM Studio
//     (lmstudio-ai/lmstudio-bug-tracker#546)
//   - "(TPM): Limit 6000, Requested 12328": OpenAI and Groq, for a request that is
//     larger than a minute's allowance (continuedev/continue#10218)
//   - "Current length is 8203 while limit is 8192": Cerebras
//   - "too large for model with 32768 maximum context length": Mistral
//   - "longer than the maximum model length of 4096": vLLM
//   - "longer than the model's context length (4096 tokens)": SGLang
//   - "`max_new_tokens` must be <= 8193", "must have less than 4095 tokens": TGI
//   - "model only supports up to 32768": Vertex AI
//   - "token count of 130001 exceeds the limit of 128000": GitHub Copilot
//   - "exceeded model token limit: 262144": Kimi
//   - "Range of input length should be [1, 129024]": Qwen
//   - "tokens in the prompt cannot exceed 4081": Cohere
var limits = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(?:maximum|max|model'?s?) (?:context|prompt|input) (?:length|size|window)(?: is| of| ?:) ?(\d[\d,]*)`),
	regexp.MustCompile(`(?i)\(TPM\): Limit (\d[\d,]*), Requested`),
	regexp.MustCompile(`(?i)while limit is (\d[\d,]*)`),
	regexp.MustCompile(`(?i)model with (\d[\d,]*) maximum context`),
	regexp.MustCompile(`(?i)maximum model length of (\d[\d,]*)`),
	regexp.MustCompile(`(?i)context length \((\d[\d,]*) tokens\)`),
	regexp.MustCompile("(?i)`max_new_tokens` must be <= (\\d[\\d,]*)"),
	regexp.MustCompile(`(?i)must have less than (\d[\d,]*) tokens`),
	regexp.MustCompile(`(?i)only supports up to (\d[\d,]*)`),
	regexp.MustCompile(`(?i)exceeds the limit of (\d[\d,]*)`),
	regexp.MustCompile(`(?i)model token limit: (\d[\d,]*)`),
	regexp.MustCompile(`(?i)input length should be \[\d+, ?(\d[\d,]*)\]`),
	regexp.MustCompile(`(?i)in the prompt cannot exceed (\d[\d,]*)`),
	regexp.MustCompile(`(?i)configured limit of (\d[\d,]*)`),
	regexp.MustCompile(`(?i)\d(?: tokens)? > (\d[\d,]*)`),
	regexp.MustCompile(`(?i)available context size \((\d[\d,]*)`),
	regexp.MustCompile(`(?i)tokens allowed \((\d[\d,]*)\)`),
	regexp.MustCompile(`(?i)"?n_ctx"?[:=] ?(\d[\d,]*)`),
	regexp.MustCompile(`(?i)context (?:length|window|size) (?:is|of) (?:only )?(\d[\d,]*)`),
}

// The windows that are believed of an error's text.
const (
	least = 512
	most  = 100_000_000
)

// InError returns the window that the text of an error names; 0 if it names none.
func InError(text string) int64 {
	text = text[:min(len(text), 4<<10)]
	for _, limit := range limits {
		if found := limit.FindStringSubmatch(text); found != nil {
			n, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
			if err == nil && n >= least && n <= most {
				return n
			}
		}
	}
	return 0
}
