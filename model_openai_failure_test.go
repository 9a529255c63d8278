package pygent_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// TestErrorsWithStatus200 has the forms in which providers report an error in an answer
// that succeeds. Their words are shown, and their codes decide about a retry.
func TestErrorsWithStatus200(t *testing.T) {
	t.Parallel()
	body := func(s string) pygenttest.Reply { return pygenttest.Raw(http.StatusOK, "application/json", s) }
	stream := func(s string) pygenttest.Reply { return pygenttest.Raw(http.StatusOK, "text/event-stream", s) }
	text := pygenttest.Text("Some text that is not the answer.")
	for name, c := range map[string]struct {
		reply pygenttest.Reply
		words string
		again bool
	}{
		"MiniMax, key":       {text.FailAfter(0, "1004", "login fail: no valid key").WithQuirks(pygenttest.QuirkBaseResp), "login fail: no valid key", false},
		"MiniMax, rate":      {text.FailAfter(0, "1002", "rate limit").WithQuirks(pygenttest.QuirkBaseResp), "rate limit", true},
		"MiniMax, balance":   {text.FailAfter(0, "1008", "insufficient balance").WithQuirks(pygenttest.QuirkBaseResp), "insufficient balance", false},
		"GLM":                {body(`{"code":401,"msg":"token expired or incorrect","success":false}`), "token expired or incorrect", false},
		"Zhipu, busy":        {text.FailAfter(2, "1305", "too busy").WithQuirks(pygenttest.QuirkBareError), "too busy", true},
		"Google":             {body(`[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]`), "API key not valid", false},
		"FastAPI":            {body(`{"detail":"model is loading"}`), "model is loading", true},
		"FastAPI, list":      {body(`{"detail":[{"msg":"field required"}]}`), "field required", true},
		"gateway":            {body(`{"success":false,"message":"balance not enough","data":null}`), "balance not enough", false},
		"gateway, message":   {body(`{"message":"Unauthorized"}`), "Unauthorized", false},
		"load balancer":      {body(`{"message":"load balancer: no backend"}`), "no backend", true},
		"Cloudflare":         {body(`{"result":null,"success":false,"errors":[{"code":7009,"message":"Upstream service unavailable"}]}`), "Upstream service unavailable", true},
		"Azure, blocked":     {body(`{"choices":[],"prompt_filter_results":[{"content_filter_results":{"jailbreak":{"filtered":true},"hate":{"filtered":false}}}],"usage":{"prompt_tokens":5}}`), "content filter blocked the prompt: jailbreak", false},
		"Gemini, blocked":    {body(`{"choices":[],"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`), "prohibited_content", false},
		"error, line":        {text.FailAfter(2, "server_error", "slot unavailable").WithQuirks(pygenttest.QuirkErrorLine), "slot unavailable", true},
		"error, line, alone": {stream("error: {\"code\":401,\"message\":\"Invalid API Key\"}\n\n"), "Invalid API Key", false},
		"error, event":       {text.FailAfter(2, "invalid_api_key", "no such key").WithQuirks(pygenttest.QuirkErrorEvent), "no such key", false},
		"error, nested":      {text.FailAfter(2, "server_error", "overloaded").WithQuirks(pygenttest.QuirkNestedError), "overloaded", true},
		"error, event, text": {stream("event: error\ndata: upstream timed out\n\n"), "upstream timed out", true},
		"NDJSON": {body(`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}` + "\n" + `{"error":{"message":"cuda out of memory","code":500}}` + "\n"),
			"cuda out of memory", true},
		"plain words": {pygenttest.Raw(http.StatusOK, "text/plain", "upstream connect error or disconnect"), "upstream connect error", true},
		"nothing":     {body(`{"id":"x","created":1}`), `the answer has no choices: {"id":"x"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, c.reply)
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			api := apiError(t, err)
			require.Contains(t, api.Error(), c.words)
			require.Equal(t, c.again, api.Retryable)
		})
	}
}

// TestWhatOnlyLooksLikeAnErrorIsNone has fields of answers that succeed.
func TestWhatOnlyLooksLikeAnErrorIsNone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"base_resp":    `{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}],"base_resp":{"status_code":0,"status_msg":""}}`,
		"not filtered": "data: {\"choices\":[],\"prompt_filter_results\":[{\"content_filter_results\":{\"hate\":{\"filtered\":false}}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"},\"finish_reason\":\"stop\"}]}\n\n",
		"NDJSON":       `{"choices":[{"delta":{"content":"H"}}]}` + "\n" + `{"choices":[{"delta":{"content":"i."},"finish_reason":"stop"}]}`,
		"success":      `{"success":true,"choices":[{"message":{"content":"Hi."}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, pygenttest.Raw(http.StatusOK, "application/json", body))
			resp, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.NoError(t, err)
			require.Equal(t, "Hi.", resp.Message.Text())
		})
	}
}
