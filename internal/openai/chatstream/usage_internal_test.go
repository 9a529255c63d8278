package chatstream

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

// FuzzReadUsage compares what is read with what encoding/json makes of it.
func FuzzReadUsage(f *testing.F) {
	for _, raw := range []string{
		`{"prompt_tokens":5,"completion_tokens":3.5,"input_tokens":1e2,"output_tokens":-1,"total_tokens":9}`,
		`{"prompt_tokens":"5","completion_tokens":null,"total_tokens":[1],"input_tokens":1e999,"output_tokens":true}`,
		`{"prompt_tokens":1,"prompt_tokens":2,"prompt_tokens":"x"}`,
		`{"Prompt_Tokens":5,"completion_to\u006bens":3,"total_to` + "\u212a" + `ens":9}`,
		`{"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":2},"prompt_tokens_details":{"cached_tokens":8},"input_tokens_details":3}`,
		`{"completion_tokens_details":{"reasoning_tokens":4},"output_tokens_details":{"reasoning_tokens":"4","cache_creation_tokens":1}}`,
		`{"cached_tokens":1,"prompt_cache_hit_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}`,
		`{"cost":0.5,"is_byok":true,"cost_details":{"upstream_inference_cost":0.25}}`,
		`{"cost":{"total_cost":1},"is_byok":1,"cost_details":{"upstream_inference_cost":null},"is_byok":null}`,
		`{"cost":null}`, `{"cost":"x","total_tokens":1}`, ` { "total_tokens" : 1 } `, `{}`, `[]`, `null`, `7`, `"a"`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if jsonobj.Check(raw, maxDepth) != nil {
			return // no chunk has it
		}
		var want wireUsage
		_ = json.Unmarshal(raw, &want)
		require.Equal(t, want, readUsage(raw), "%s", raw)
	})
}
