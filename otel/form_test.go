package otel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessagesHaveTheFormOfTheConventions(t *testing.T) {
	large := strings.Repeat("A", 100<<10)
	for message, want := range map[string]string{
		`{"role":"user","content":"hi","name":"Ada"}`: `[{"role":"user","name":"Ada","parts":[{"type":"text","content":"hi"}]}]`,
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + large + `"}},
			{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}]}`: `[{"role":"user","parts":[
			{"type":"text","content":"a"},{"type":"uri","modality":"image","uri":"https://example.com/a.png"},
			{"type":"blob","modality":"image","mime_type":"image/png","content":"QUJD"},
			{"type":"blob","modality":"document","mime_type":"application/pdf","content":""},
			{"type":"blob","modality":"audio","mime_type":"audio/wav","content":"QUJD"}]}]`,
		`{"role":"tool","tool_call_id":"c1","content":"done"}`: `[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"done"}]}]`,
		`{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{broken"}}]}`: `[{"role":"assistant","parts":[
			{"type":"reasoning","content":"hm"},{"type":"tool_call","id":"c1","name":"f","arguments":"{broken"}]}]`,
		`no JSON`: `[]`,
	} {
		require.JSONEq(t, want, inputs([]byte(message)), message)
	}
	require.JSONEq(t, `[{"role":"assistant","finish_reason":"stop","parts":[]}]`, output([]byte(`{"role":"assistant","content":""}`), ""))
	require.JSONEq(t, `[{"role":"assistant","finish_reason":"length","parts":[]}]`, output([]byte(`{"role":"assistant"}`), "length"))
}

// The names are those of gen_ai.provider.name in
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/registry/attributes/gen-ai.md.
func TestProviders(t *testing.T) {
	for url, want := range map[string]provider{
		"https://api.openai.com/v1":                                 {name: "openai", host: "api.openai.com", port: 443},
		"http://localhost:11434/v1":                                 {name: "openai", host: "localhost", port: 11434},
		"http://example.com/v1":                                     {name: "openai", host: "example.com", port: 80},
		"https://mine.openai.azure.com/openai/v1":                   {name: "azure.ai.openai", host: "mine.openai.azure.com", port: 443},
		"https://generativelanguage.googleapis.com/v1beta/openai":   {name: "gcp.gemini", host: "generativelanguage.googleapis.com", port: 443},
		"https://us-east1-aiplatform.googleapis.com/v1":             {name: "gcp.vertex_ai", host: "us-east1-aiplatform.googleapis.com", port: 443},
		"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1": {name: "aws.bedrock", host: "bedrock-runtime.us-west-2.amazonaws.com", port: 443},
		"https://api.x.ai/v1":                                       {name: "x_ai", host: "api.x.ai", port: 443},
		"https://notx.ai/v1":                                        {name: "openai", host: "notx.ai", port: 443},
		"://":                                                       {name: "openai"},
	} {
		require.Equal(t, want, providerAt(url), url)
	}
}
