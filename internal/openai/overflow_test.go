package openai

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/window"
)

// What servers say of a conversation that is too long, and the window that they
// name.
func TestOverflowsOfServersAreRecognised(t *testing.T) {
	for _, tt := range []struct {
		server, message string
		status          int
		window          int64
	}{
		{"OpenAI", "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.", 400, 128_000},
		{"OpenAI Responses", "Your input exceeds the context window of this model. Please adjust your input and try again.", 400, 0},
		{"OpenAI GPT-5", "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 297,006 tokens.", 400, 272_000},
		{"OpenAI tokens per minute", "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully.", 429, 30_000},
		{"Groq", "Please reduce the length of the messages or completion.", 400, 0},
		{"Groq tokens per minute", "Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce your message size and try again.", 413, 6000},
		{"Cerebras", "Please reduce the length of the messages or completion. Current length is 8203 while limit is 8192", 400, 8192},
		{"vLLM", "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.", 400, 128_000},
		{"vLLM, the prompt alone", "The decoder prompt (length 5087) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.", 400, 4096},
		{"SGLang", "The input (5087 tokens) is longer than the model's context length (4096 tokens).", 400, 4096},
		{"TGI", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and 500 `max_new_tokens`", 422, 8193},
		{"TGI, the prompt alone", "Input validation error: `inputs` must have less than 4095 tokens. Given: 5087", 422, 4095},
		{"llama.cpp", "request (5087 tokens) exceeds the available context size (4096 tokens), try increasing it", 400, 4096},
		{"Ollama", "prompt too long; exceeded max context length by 21 tokens", 400, 0},
		{"LM Studio", "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough.", 400, 32_768},
		{"LM Studio, before", "The number of tokens to keep from the initial prompt is greater than the context length.", 400, 0},
		{"Mistral", "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 400, 32_768},
		{"DeepSeek", "This model's maximum context length is 65536 tokens. However, you requested 72814 tokens (68718 in the messages, 4096 in the completion). Please reduce the length of the messages or completion.", 400, 65_536},
		{"OpenRouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 142832 tokens (130000 of text input, 12832 of tool input).", 400, 131_072},
		{"Gemini", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 400, 1_048_575},
		{"Vertex", "Unable to submit request because the input token count is 40000 but model only supports up to 32768. Reduce the input token count and try again.", 400, 32_768},
		{"Anthropic", "prompt is too long: 213462 tokens > 200000 maximum", 400, 200_000},
		{"Anthropic with an answer", "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again", 400, 200_000},
		{"Bedrock", "Input is too long for requested model.", 400, 0},
		{"xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 400, 131_072},
		{"Copilot", "prompt token count of 130001 exceeds the limit of 128000", 400, 128_000},
		{"Kimi", "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)", 400, 262_144},
		{"MiniMax", "invalid params, context window exceeds limit (2013)", 400, 0},
		{"Qwen", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 400, 129_024},
		{"GLM", "Prompt exceeds max length", 400, 0},
		{"Fireworks", "The prompt is too long: 131073, model maximum context length: 131071", 400, 131_071},
		{"Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5087. Try using a shorter prompt.", 400, 4081},
		{"LiteLLM", "litellm.ContextWindowExceededError: litellm.BadRequestError: it is too much", 400, 0},
	} {
		t.Run(tt.server, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"error": map[string]any{"message": tt.message}})
			require.NoError(t, err)
			e := newStatusError(tt.status, http.Header{}, body)
			require.True(t, e.ContextTooLarge)
			require.False(t, e.Retryable)
			require.Equal(t, tt.window, window.InError(e.Message))
		})
	}
}

// llama.cpp b6400 and others name the window beside the message.
func TestAWindowBesideTheMessageIsRead(t *testing.T) {
	for _, body := range []string{
		`{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`,
		`{"error":{"message":"Prompt tokens (14429) exceeds context size (8192)","type":"context_exceeded","n_prompt_tokens":14429,"n_ctx":8192}}`,
	} {
		e := newStatusError(http.StatusBadRequest, http.Header{}, []byte(body))
		require.True(t, e.ContextTooLarge)
		require.EqualValues(t, 8192, window.InError(e.Message), e.Message)
	}
}

func TestOtherErrorsAreNoOverflows(t *testing.T) {
	for message, status := range map[string]int{
		"Rate limit reached for model `x` in organization `o` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.": 429,
		"max_tokens must be less than or equal to 16384, the maximum value for max_tokens is less than the context_window for this model":                    400,
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.":                                 400,
		"Too many tokens, please wait before trying again.": 429,
	} {
		body, err := json.Marshal(map[string]any{"error": map[string]any{"message": message}})
		require.NoError(t, err)
		require.False(t, newStatusError(status, http.Header{}, body).ContextTooLarge, message)
	}
}
