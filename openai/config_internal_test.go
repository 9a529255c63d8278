package openai

import (
	"testing"
	"time"

	wire "github.com/x/pygent/internal/openai"

	"github.com/stretchr/testify/require"
)

func TestVariablesReachTheModel(t *testing.T) {
	t.Parallel()
	o := options{Config: wire.Config{SendReasoning: true}}
	variables := map[string]string{
		"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://h/v1", "OPENAI_ORG_ID": "o", "OPENAI_PROJECT_ID": "p",
		"PYGENT_OPENAI_HEADERS": `{"X-A":"1"}`, "PYGENT_OPENAI_EXTRA_BODY": `{"a":true}`, "PYGENT_OPENAI_CA_FILE": "f",
		"PYGENT_OPENAI_MAX_TOKENS": "9", "PYGENT_OPENAI_MAX_TOKENS_FIELD": "n", "PYGENT_OPENAI_PARALLEL_TOOL_CALLS": "0",
		"PYGENT_OPENAI_STALL_FIRST": "none", "PYGENT_OPENAI_SEND_REASONING": "0",
		"PYGENT_OPENAI_API": "responses",
	}
	opts, err := environmentOf([]Option{Env(func(name string) (string, bool) { value, ok := variables[name]; return value, ok })})
	require.NoError(t, err)
	for _, opt := range opts {
		opt(&o)
	}
	require.NoError(t, o.limits())
	require.Equal(t, "k", o.Key)
	require.Equal(t, "http://h/v1", o.BaseURL)
	require.Equal(t, []wire.Header{{Name: "OpenAI-Organization", Value: "o"}, {Name: "OpenAI-Project", Value: "p"}, {Name: "X-A", Value: "1"}}, o.Headers)
	require.Equal(t, map[string]any{"a": true}, o.Extra)
	require.Equal(t, "f", o.CAFile)
	require.Equal(t, 9, o.MaxTokens)
	require.Equal(t, "n", o.MaxTokensField)
	require.Equal(t, false, *o.Parallel)
	require.Zero(t, o.FirstByte)
	require.Equal(t, time.Duration(defaultBetweenChunks), o.BetweenChunks)
	require.False(t, o.SendReasoning)
	require.Equal(t, wire.Responses, o.Protocol)
}
