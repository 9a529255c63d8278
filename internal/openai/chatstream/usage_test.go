package chatstream_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

func TestUsageInTheFormsOfServers(t *testing.T) {
	amount := func(f float64) *float64 { return &f }
	for name, tt := range map[string]struct {
		raw  string
		want chatstream.Usage
	}{
		"OpenAI": {`{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1500,"cache_write_tokens":400},"completion_tokens_details":{"reasoning_tokens":100}}`,
			chatstream.Usage{Prompt: 2006, Completion: 300, Cached: 1500, CacheWrite: 400, Reasoning: 100}},
		"OpenAI's Responses": {`{"input_tokens":20,"output_tokens":5,"total_tokens":25,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":4},"output_tokens_details":{"reasoning_tokens":2}}`,
			chatstream.Usage{Prompt: 20, Completion: 5, Cached: 8, CacheWrite: 4, Reasoning: 2}},
		"OpenRouter": {`{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.95,"is_byok":false,"cost_details":{"upstream_inference_cost":19},"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":100}}`,
			chatstream.Usage{Prompt: 194, Completion: 2, CacheWrite: 100, Cost: amount(0.95)}},
		"OpenRouter with a key of the user's own": {`{"prompt_tokens":9,"completion_tokens":2,"cost":0.25,"is_byok":true,"cost_details":{"upstream_inference_cost":0.5}}`,
			chatstream.Usage{Prompt: 9, Completion: 2, Cost: amount(0.75)}},
		"for free":   {`{"prompt_tokens":9,"completion_tokens":2,"cost":0}`, chatstream.Usage{Prompt: 9, Completion: 2, Cost: amount(0)}},
		"Perplexity": {`{"prompt_tokens":9,"completion_tokens":2,"cost":{"input_tokens_cost":0.1,"total_cost":0.3}}`, chatstream.Usage{Prompt: 9, Completion: 2, Cost: amount(0.3)}},
		"DeepSeek":   {`{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}`, chatstream.Usage{Prompt: 9, Completion: 2, Cached: 4}},
		"Moonshot":   {`{"prompt_tokens":9,"completion_tokens":2,"cached_tokens":4}`, chatstream.Usage{Prompt: 9, Completion: 2, Cached: 4}},
		"Gemini":     {`{"prompt_tokens":20,"completion_tokens":424,"total_tokens":1016}`, chatstream.Usage{Prompt: 20, Completion: 996, Reasoning: 572}},
		"xAI": {`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`,
			chatstream.Usage{Prompt: 32, Completion: 103, Reasoning: 94}},
		"a gateway to Anthropic's models": {`{"prompt_tokens":120,"completion_tokens":5,"total_tokens":125,"cache_read_input_tokens":100,"cache_creation_input_tokens":15}`,
			chatstream.Usage{Prompt: 120, Completion: 5, Cached: 100, CacheWrite: 15}},
		"a gateway that counts the cache apart": {`{"prompt_tokens":5,"completion_tokens":5,"total_tokens":125,"cache_read_input_tokens":100,"cache_creation_input_tokens":15}`,
			chatstream.Usage{Prompt: 120, Completion: 5, Cached: 100, CacheWrite: 15}},
		"a total alone":        {`{"total_tokens":125}`, chatstream.Usage{}},
		"more cached than all": {`{"prompt_tokens":5,"completion_tokens":3,"cached_tokens":50,"cache_creation_input_tokens":9,"completion_tokens_details":{"reasoning_tokens":7}}`, chatstream.Usage{Prompt: 5, Cached: 5, Completion: 3, Reasoning: 3}},
		"negative numbers":     {`{"prompt_tokens":-5,"completion_tokens":-3,"total_tokens":-8,"cost":-1}`, chatstream.Usage{}},
		"implausible numbers":  {`{"prompt_tokens":1e300,"completion_tokens":1e12,"total_tokens":9223372036854775807,"cost":1e10}`, chatstream.Usage{}},
		"numbers out of range": {`{"prompt_tokens":1e999,"completion_tokens":4,"cost":1e999}`, chatstream.Usage{Completion: 4}},
		"other types":          {`{"prompt_tokens":"9","completion_tokens":4,"cost":"free","cost_details":[1],"prompt_tokens_details":7,"is_byok":"no"}`, chatstream.Usage{Completion: 4}},
		"null":                 {`null`, chatstream.Usage{}},
		"no object":            {`[]`, chatstream.Usage{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, chatstream.UsageIn(json.RawMessage(tt.raw)))
		})
	}
}

func FuzzUsageIn(f *testing.F) {
	f.Add([]byte(`{"prompt_tokens":5,"completion_tokens":3,"total_tokens":9,"cached_tokens":50,"cost":{"total_cost":1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := chatstream.UsageIn(raw)
		for _, n := range []int64{u.Cached, u.CacheWrite, u.Reasoning, u.Prompt, u.Completion} {
			require.GreaterOrEqual(t, n, int64(0))
			require.Less(t, n, int64(4e12))
		}
		require.LessOrEqual(t, u.Cached+u.CacheWrite, u.Prompt)
		require.LessOrEqual(t, u.Reasoning, u.Completion)
		if u.Cost != nil {
			require.True(t, *u.Cost >= 0 && *u.Cost < 2e9)
		}
	})
}
