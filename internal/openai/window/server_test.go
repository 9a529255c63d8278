package window_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/window"
)

func TestWindowsThatErrorsName(t *testing.T) {
	for text, want := range map[string]int64{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.":                                 8192,
		"This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens":                                   32768,
		"Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 297,006 tokens.":                               272_000,
		"prompt is too long: 210000 tokens > 200000 maximum":                                                                                  200_000,
		"input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease input length":                                  204_648,
		"the request exceeds the available context size (4096 tokens), try increasing it":                                                     4096,
		`{"n_prompt_tokens":5000,"n_ctx":4096}`:                                                                                               4096,
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).":                                             1_048_576,
		"This model's maximum prompt length is 131072 but the request contains 140000 tokens":                                                 131_072,
		"Trying to keep the first 111490 tokens. However, the model is loaded with context length of only 32768 tokens, which is not enough.": 32768,
		"Your input exceeds the context window of this model.":                                                                                0,
		"maximum context length is 3 tokens":                                                                                                  0,
		"maximum context length is 99999999999999999999999 tokens":                                                                            0,
		"": 0,
	} {
		require.Equal(t, want, window.InError(text), text)
	}
}

func TestWindowsThatServersTell(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want int64
		kind window.Server
	}{
		"vLLM":          {`{"data":[{"id":"m","owned_by":"vllm","max_model_len":8096}]}`, 8096, "vllm"},
		"OpenRouter":    {`{"data":[{"id":"x","context_length":1000},{"id":"m","context_length":131072,"top_provider":{}}]}`, 131_072, ""},
		"Groq":          {`{"data":[{"id":"m","context_window":131072}]}`, 131_072, ""},
		"Mistral":       {`{"data":[{"id":"m","max_context_length":32768}]}`, 32_768, ""},
		"LM Studio":     {`{"data":[{"id":"m","max_context_length":32768,"loaded_context_length":4096}]}`, 4096, ""},
		"llama.cpp":     {`{"models":[{"name":"m"}],"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":4096,"n_ctx_train":131072}}]}`, 4096, window.LlamaCpp},
		"llama.cpp old": {`{"models":[{"name":"/models/q.gguf"}],"data":[{"id":"/models/q.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`, 0, window.LlamaCpp},
		"Ollama":        {`{"data":[{"id":"m","owned_by":"library"}]}`, 0, window.Ollama},
		"Ollama loaded": {`{"models":[{"name":"m:latest","model":"m:latest","context_length":4096}]}`, 4096, ""},
		"another model": {`{"data":[{"id":"a","max_model_len":8096},{"id":"b"}]}`, 0, ""},
		"odd types":     {`{"data":[{"id":"m","max_model_len":"8096","context_length":-4},7,null]}`, 0, ""},
		"no list":       {`[]`, 0, ""},
		"OpenAI":        {`{"data":[{"id":"m","owned_by":"openai"}]}`, 0, "openai"},
	} {
		t.Run(name, func(t *testing.T) {
			got, kind := window.InList([]byte(tt.body), "m")
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.kind, kind)
		})
	}
	require.Equal(t, int64(8192), window.InProps([]byte(`{"default_generation_settings":{"n_ctx":8192}}`)))
	require.Zero(t, window.InProps([]byte(`{"default_generation_settings":7}`)))
	require.False(t, window.Tells("api.openai.com"))
	require.False(t, window.Tells("x.openai.azure.com"))
	require.True(t, window.Tells("openrouter.ai"))
}

func FuzzInList(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"m","max_model_len":8096}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, _ := window.InList(body, "m")
		require.GreaterOrEqual(t, got, int64(0))
		require.GreaterOrEqual(t, window.InProps(body), int64(0))
		require.GreaterOrEqual(t, window.InError(string(body)), int64(0))
	})
}
