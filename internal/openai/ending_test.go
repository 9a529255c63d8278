package openai

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndings has the words of each server as it writes them; docs/providers.md has the
// sources.
func TestEndings(t *testing.T) {
	for want, list := range map[Ending][]string{
		Stopped:   {"stop", "STOP", "end_turn", "stop_sequence", "eos_token", "COMPLETE", "FINISH_REASON_STOP"},
		Called:    {"tool_calls", "tool_use", "function_call", "TOOL_CALL", "tool-calls"},
		CutOff:    {"length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded", "max_output_tokens", "ERROR_LIMIT", "MaxTokens"},
		Filtered:  {"content_filter", "content-filter", "SAFETY", "RECITATION", "sensitive", "guardrail_intervened", "refusal", "content_filtered", "ERROR_TOXIC", "PROHIBITED_CONTENT"},
		BrokenOff: {"error", "abort", "network_error", "insufficient_system_resource", "ERROR", "USER_CANCEL", "function_call_filter: MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "repetition"},
	} {
		for _, word := range list {
			got, known := EndingOf(word)
			require.True(t, known, word)
			require.Equal(t, want, got, word)
		}
	}
	got, known := EndingOf("Because")
	require.False(t, known)
	require.Equal(t, Ending("Because"), got)
	_, known = EndingOf("stop2")
	require.False(t, known)
	got, known = EndingOf("")
	require.True(t, known)
	require.Empty(t, got)
}
