package window_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/window"
)

func TestWindowsOfModels(t *testing.T) {
	for model, want := range map[string]int64{
		"gpt-4.1-mini": 1_047_576, "openai/GPT-4.1": 1_047_576, "gpt-4o-2024-08-06": 128_000, "gpt-5-mini": 400_000,
		"gpt-5-chat-latest": 128_000, "o3": 200_000, "o3-mini": 200_000, "anthropic/claude-sonnet-4-5": 200_000,
		"": 0, "gpt-4": 0, "gpt-50": 0, "my-gpt-4o": 0, "o30": 0, "/": 0,
	} {
		require.Equal(t, want, window.Of(model), model)
	}
}

func TestSomeModelsTakeLessThanTheirWindow(t *testing.T) {
	require.Equal(t, int64(272_000), window.Input("gpt-5-mini"))
	require.Equal(t, int64(272_000), window.Input("openai/gpt-5.4"))
	require.Equal(t, int64(200_000), window.Input("claude-opus-4-6"))
	require.Zero(t, window.Input("my-model"))
}
