package openai_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

func TestBrokenAnswersAreAPIErrors(t *testing.T) {
	t.Parallel()
	text := pygenttest.Text("Half of the answer.")
	cases := []struct {
		name      string
		reply     pygenttest.Reply
		retryable bool
	}{
		{"no choices", text.WithQuirks(pygenttest.QuirkNoChoices), true},
		{"bad JSON", pygenttest.Malformed(), true},
		{"HTML", pygenttest.HTML(200), false},
		{"HTML of a gateway", pygenttest.HTML(502), true},
		{"empty", pygenttest.Raw(200, "application/json", ""), true},
		{"null", pygenttest.Raw(200, "application/json", "null"), true},
		{"plain text", pygenttest.Raw(200, "text/plain", "hello"), true},
		{"no events", pygenttest.Raw(200, "text/event-stream", "data:\n\n: x\n\n"), true},
		{"malformed event", pygenttest.SSE(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choi`), true},
		{"only DONE", pygenttest.SSE("[DONE]"), true},
		{"DONE without a finish reason", pygenttest.SSE(`{"choices":[{"delta":{"content":"a"}}]}`, "[DONE]"), true},
		{"disconnect", pygenttest.Disconnect(), true},
		{"cut", text.CutAfter(1), true},
		{"cut before the end", text.CutAfter(100), true},
		{"server error inside", text.FailAfter(1, "server_error", "Oops"), true},
		{"rate limit inside", text.FailAfter(1, "rate_limit_exceeded", "Oops"), true},
		{"bad request inside", text.FailAfter(1, "invalid_request_error", "Oops"), false},
		{"quota inside", text.FailAfter(1, "insufficient_quota", "Oops"), false},
		{"400 inside", pygenttest.SSE(`{"error":{"code":400,"message":"Oops"}}`), false},
		{"429 inside", pygenttest.SSE(`{"error":{"code":429,"message":"Oops"}}`), true},
		{"unknown inside", pygenttest.SSE(`{"error":"Oops"}`), true},
	}
	bothWays(t, func(t *testing.T, call chatFunc) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				m, s := serve(t, c.reply)
				_, err := call(m, ask())
				require.Equal(t, c.retryable, apiError(t, err).Retryable, err)
				require.Len(t, s.Requests(), 1, "the agent repeats, not the model")
			})
		}
	})
	t.Run("no finish reason", func(t *testing.T) {
		m, _ := serve(t, text.WithQuirks(pygenttest.QuirkNoFinishReason))
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
		require.True(t, apiError(t, err).Retryable)
	})
}

func TestEndlessAnswersAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hostile answers")
	}
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := []byte("data: " + strings.Repeat("x", 1<<20))
		for err := error(nil); err == nil; {
			_, err = w.Write(line)
		}
	}))
	defer s.Close()
	_, err := newModel(t, openai.BaseURL(s.URL+"/v1")).ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.False(t, apiError(t, err).Retryable)
	require.ErrorContains(t, err, "too large")
}

func TestErrorStatusesAreClassified(t *testing.T) {
	t.Parallel()
	text := func(status int, body string) pygenttest.Reply {
		return pygenttest.Raw(status, "application/json", body)
	}
	cases := []struct {
		name  string
		reply pygenttest.Reply
		want  pygent.APIError
	}{
		{"rate limit", pygenttest.RateLimited(2 * time.Second), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 2 * time.Second}},
		{"milliseconds", pygenttest.RateLimited(1500 * time.Millisecond), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 1500 * time.Millisecond}},
		{"quota", pygenttest.QuotaExceeded(), pygent.APIError{Status: 429}},
		{"billing", pygenttest.Status(429, "billing_hard_limit_reached", "x"), pygent.APIError{Status: 429}},
		{"payment", pygenttest.Status(402, "", "x"), pygent.APIError{Status: 402}},
		{"overloaded", pygenttest.Overloaded(), pygent.APIError{Status: 503, Retryable: true}},
		{"timeout", pygenttest.Status(408, "", "x"), pygent.APIError{Status: 408, Retryable: true}},
		{"conflict", pygenttest.Status(409, "", "x"), pygent.APIError{Status: 409, Retryable: true}},
		{"not implemented", pygenttest.Status(501, "", "x"), pygent.APIError{Status: 501}},
		{"bad request", pygenttest.Status(400, "invalid_value", "x"), pygent.APIError{Status: 400}},
		{"forbidden", pygenttest.Status(403, "", "x"), pygent.APIError{Status: 403}},
		{"do not retry", pygenttest.Status(500, "", "x").WithHeader("x-should-retry", "false"), pygent.APIError{Status: 500}},
		{"context, by code", pygenttest.ContextTooLarge(100), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"context, vLLM", text(400, `{"object":"error","message":"This model's maximum context length is 8 tokens.","code":400}`), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"context, llama.cpp", text(500, `{"error":{"code":500,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`), pygent.APIError{Status: 500, ContextTooLarge: true}},
		{"context, Ollama", text(400, `{"error":"prompt too long; exceeded max context length by 4 tokens"}`), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"context, Anthropic", text(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 200001 tokens > 200000 maximum"}}`), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"context, OpenRouter", text(400, `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"message\":\"Input is too long for requested model.\"}","provider_name":"B"}}}`), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"context, Groq", pygenttest.Status(413, "rate_limit_exceeded", "Request too large"), pygent.APIError{Status: 413, ContextTooLarge: true}},
		{"Google", text(429, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"retryDelay":"17s"}]}}]`), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 17 * time.Second}},
		{"reset of nothing left", pygenttest.Status(429, "", "x").WithHeader("x-ratelimit-remaining-tokens", "0").WithHeader("x-ratelimit-reset-tokens", "1m3s").WithHeader("x-ratelimit-reset-requests", "9h"), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 63 * time.Second}},
		{"nonsense", pygenttest.Status(429, "", "x").WithHeader("Retry-After", "NaN"), pygent.APIError{Status: 429, Retryable: true}},
		{"without end", pygenttest.Status(429, "", "x").WithHeader("Retry-After", "1e300"), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 31 * 24 * time.Hour}},
	}
	bothWays(t, func(t *testing.T, call chatFunc) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				m, s := serve(t, c.reply)
				_, err := call(m, ask())
				got := apiError(t, err)
				require.Equal(t, c.want, pygent.APIError{Status: got.Status, Retryable: got.Retryable, ContextTooLarge: got.ContextTooLarge, RetryAfter: got.RetryAfter}, err)
				require.Len(t, s.Requests(), 1)
			})
		}
	})
}

func TestRetryAfterMayBeADate(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Status(503, "", "x").WithHeader("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)))
	_, err := m.Chat(t.Context(), ask())
	require.InDelta(t, time.Hour, apiError(t, err).RetryAfter, float64(time.Minute))
}

func TestErrorsSayWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reply pygenttest.Reply
		want  []string
	}{
		{pygenttest.Status(400, "some_code", "The words.").WithHeader("x-request-id", "req_9"), []string{"400", "some_code", "The words."}},
		{pygenttest.Raw(400, "application/json", `{"error":"Just words."}`), []string{"Just words."}},
		{pygenttest.Raw(422, "application/json", `{"detail":[{"loc":["body","x"],"msg":"wrong"}]}`), []string{"wrong"}},
		{pygenttest.Raw(400, "application/json", `{"error":{"code":400,"message":"No."}}`), []string{"(400): No."}},
		{pygenttest.Raw(400, "text/plain", "Bare\nwords"), []string{"Bare words"}},
		{pygenttest.Raw(403, "application/json", `{"Message":"Not you."}`), []string{"(403): Not you."}},
		{pygenttest.Raw(401, "application/json", `{"Response":{"Error":{"Code":"AuthFailure"}}}`), []string{`{"Response":{"Error":{"Code":"AuthFailure"}}}`}},
		{pygenttest.Raw(400, "application/json", `{}`), []string{"Bad Request"}},
		{pygenttest.HTML(200), []string{"is an HTML page (asked http://", "/v1/chat/completions: "}},
		{pygenttest.SSE(`{"type":"message_start","message":{"id":"x"}}`), []string{`no choices: {"type":"message_start"`}},
		{pygenttest.Raw(400, "text/plain", ""), []string{"Bad Request"}},
		{pygenttest.HTML(502), []string{"HTML page"}},
		{pygenttest.Status(404, "", "No."), []string{"serve a model called \"gpt-4.1-mini\""}},
	}
	for _, c := range cases {
		m, _ := serve(t, c.reply)
		_, err := m.Chat(t.Context(), ask())
		for _, want := range c.want {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestErrorsCarryTheRequestID(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-request-id", "req_9")
		if r.URL.Query().Has("fail") {
			w.WriteHeader(400)
		}
		fmt.Fprint(w, "{}")
	}))
	defer s.Close()
	for _, query := range []string{"", "?fail"} {
		_, err := newModel(t, openai.BaseURL(s.URL+"/v1"+query)).Chat(t.Context(), ask())
		require.Equal(t, "req_9", apiError(t, err).RequestID)
	}
}

func TestConnectionErrorsCarryHints(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	closed := s.URL
	s.Close()
	_, err := newModel(t, openai.BaseURL(closed+"/v1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "is the server running there?")
	require.ErrorContains(t, err, closed)
	require.False(t, apiError(t, err).Retryable, "no server has ever answered there")

	_, fake := serve(t)
	_, err = newModel(t, openai.BaseURL("https"+strings.TrimPrefix(fake.URL(), "http"))).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "begin with http://")
	require.False(t, apiError(t, err).Retryable)

	lost := httptest.NewServer(http.NotFoundHandler())
	model := newModel(t, openai.BaseURL(lost.URL))
	_, err = model.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "commonly end in /v1")
	require.ErrorContains(t, err, "asked "+lost.URL+"/chat/completions")
	lost.Close()
	_, _ = model.Chat(t.Context(), ask()) // may still take the old connection
	_, err = model.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "is the server running there?")
	require.True(t, apiError(t, err).Retryable, "the server has answered before")

	keyless, err := openai.New(openai.Env(nil), openai.BaseURL(fake.URL()))
	require.NoError(t, err)
	fake.Add(pygenttest.Status(401, "", "No."))
	_, err = keyless.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "No API key was sent")
}

// A server that is being restarted refuses connections, or closes them before it answers,
// for longer than five attempts take.
func TestAServerThatIsAwayForAMomentIsWaitedFor(t *testing.T) {
	t.Parallel()
	often := pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond})
	const away = 20 // attempts
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		model, server := serve(t)
		for range away {
			server.Add(pygenttest.Disconnect())
		}
		server.Add(stop)
		_, err := newAgentOn(t, nowhere{}, model, often).RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Len(t, server.Requests(), away+1)
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		script := pygenttest.NewServer(t, pygenttest.Call("list_files", nil), stop)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		front := &http.Server{Handler: script}
		go front.Serve(listener)
		tried := 0
		agent := newAgentOn(t, testkit.NewRuntime(t, pygent.NewLocalRuntime), newModel(t, openai.BaseURL("http://"+listener.Addr().String()+"/v1")), often, pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventToolStart:
				require.NoError(t, front.Close())
			case pygent.EventRetry:
				if tried++; tried == away {
					again, err := net.Listen("tcp", listener.Addr().String())
					require.NoError(t, err)
					front = &http.Server{Handler: script}
					go front.Serve(again)
				}
			}
		}))
		_, err = agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.GreaterOrEqual(t, tried, away)
		require.NoError(t, front.Close())
	})
}

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

const unclosedCall = `<function=bash>{"cmd": "ls"</function>`

func TestAModelIsToldOfTheCallThatItsServerRefused(t *testing.T) {
	t.Parallel()
	groq := pygenttest.ToolUseFailed(unclosedCall)
	proxy := func(message string) pygenttest.Reply {
		return pygenttest.Raw(400, "application/json", `{"error":{"message":"`+message+`","code":"bad_request","failed_generation":"{\"cmd\": \"ls\""}}`)
	}
	for name, tt := range map[string]struct {
		reply pygenttest.Reply
		wrote string
	}{
		"Groq":         {groq, unclosedCall},
		"a stream":     {groq.InStream(), unclosedCall},
		"another code": {proxy("cannot read it"), `{"cmd": "ls"`},
		"both":         {proxy("failed to parse input at pos 3: x"), `{"cmd": "ls"`},
		"llama.cpp":    {llamaError, `<tool_call>{"cmd": "ls"`},
		"Ollama":       {ollamaError, `{"cmd": "ls"`},
		"Gemini":       {pygenttest.Text("").WithFinish("MALFORMED_FUNCTION_CALL"), ""},
		"Gemini, too":  {pygenttest.Text("").WithFinish("UNEXPECTED_TOOL_CALL"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, tt.reply, tt.reply, stop)
			agent := newAgentOn(t, nowhere{}, m)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			requests := server.Requests()
			require.Len(t, requests, 3)
			require.Equal(t, len(requests[0].Chat.Messages), len(requests[1].Chat.Messages), "at first it is only asked again")
			said := texts(requests[2].Chat.Messages)
			require.Contains(t, strings.Join(said, "\n"), "Your last answer could not be read by your server, so no tool was called: ")
			if tt.wrote != "" {
				require.Contains(t, said, tt.wrote)
			}
		})
	}
}

func TestAModelThatIsNeverReadEndsTheRun(t *testing.T) {
	t.Parallel()
	m, server := serve(t, pygenttest.ToolUseFailed(unclosedCall))
	server.RepeatLast()
	agent := newAgentOn(t, nowhere{}, m)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "Failed to call a function")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.Len(t, server.Requests(), 6)
}

func TestACallThatAServerRefusedIsReadAsText(t *testing.T) {
	t.Parallel()
	failed := pygenttest.ToolUseFailed(`<tool_call>` + "\n" + `{"name": "bash", "arguments": {"cmd": "true"}}` + "\n" + `</tool_call>`)
	m, _ := serve(t, failed, failed, stop)
	agent := newAgent(t, m, pygent.WithApproval(approving))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, results(agent), 2, "the call ran")
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	endless := pygenttest.Text("I check the file again. ").WithQuirks(pygenttest.QuirkEndless)
	for name, reply := range map[string]pygenttest.Reply{
		"text": endless, "thoughts": pygenttest.Text("").WithReasoning("I check the file again. ").WithQuirks(pygenttest.QuirkEndless),
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, reply, reply, reply, stop)
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.ErrorContains(t, err, "the model repeated itself without end: \"I check")
			agent := newAgentOn(t, nowhere{}, m)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			requests := server.Requests()[1:]
			require.Len(t, requests, 3)
			require.Contains(t, texts(requests[2].Chat.Messages)[len(requests[2].Chat.Messages)-1], "repeated \"")
		})
	}
}

// TestAFileOfEqualLinesIsWritten has a call whose text repeats itself, as a fixture does.
func TestAFileOfEqualLinesIsWritten(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("all work and no play makes a dull boy\n", 800)
	m, _ := serve(t, pygenttest.Call("write_file", map[string]any{"path": "a", "content": content}))
	resp, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err)
	require.Contains(t, resp.Message.ToolCalls[0].Arguments, strings.TrimSuffix(strings.ReplaceAll(content, "\n", `\n`), `\n`))
}

var (
	llamaError  = pygenttest.Status(500, "", `Failed to parse input at pos 17: <tool_call>{"cmd": "ls"`)
	ollamaError = pygenttest.Status(500, "", `error parsing tool call: raw='{"cmd": "ls"', err=unexpected end of JSON input`)
)

func TestThoughtsOfARefusedAnswerAreNotItsText(t *testing.T) {
	t.Parallel()
	failed := pygenttest.ToolUseFailed("<think>\nI list it.\n</think>\nThere is none.")
	m, server := serve(t, failed, failed, stop)
	_, err := newAgentOn(t, nowhere{}, m).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	said := texts(server.Requests()[2].Chat.Messages)
	require.Contains(t, said, "There is none.")
	require.NotContains(t, strings.Join(said, "\n"), "I list it.")

	failed = pygenttest.ToolUseFailed("<think>\nI list it.\n<tool_call>\n" + `{"name": "bash", "arguments": {"cmd": "true"}}` + "\n</tool_call>")
	m, _ = serve(t, failed, failed, stop)
	agent := newAgent(t, m, pygent.WithApproval(approving))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 2, "the call ran")
}

func TestACallThatTheUserDemandsStaysDemanded(t *testing.T) {
	t.Parallel()
	groq := pygenttest.Status(400, "tool_use_failed", "Tool choice is required, but model did not call a tool")
	s := pygenttest.NewServer(t, groq, pygenttest.Text("Hi."))
	m := newModel(t, openai.BaseURL(s.URL()), openai.ExtraBody(map[string]any{"tool_choice": "required"}))
	req := ask()
	req.Tools, req.MustCall = []chat.ToolSpec{{Name: "bash"}}, true
	_, err := m.Chat(t.Context(), req)
	require.True(t, apiError(t, err).Retryable)
	require.Len(t, s.Requests(), 1)
}

func TestEveryWordForAnEndIsUnderstood(t *testing.T) {
	t.Parallel()
	for word, want := range map[chat.FinishReason]chat.FinishReason{
		"max_tokens": chat.FinishLength, "MAX_TOKENS": chat.FinishLength, "model_length": chat.FinishLength,
		"model_context_window_exceeded": chat.FinishLength, "SAFETY": chat.FinishFilter, "end_turn": chat.FinishStop,
	} {
		m, _ := serve(t, pygenttest.Text("Half").WithFinish(word))
		for _, ask := range map[string]func() (*pygent.ChatResponse, error){
			"whole":  func() (*pygent.ChatResponse, error) { return m.Chat(t.Context(), ask()) },
			"stream": func() (*pygent.ChatResponse, error) { return m.ChatStream(t.Context(), ask(), func(pygent.Delta) {}) },
		} {
			m, _ = serve(t, pygenttest.Text("Half").WithFinish(word))
			resp, err := ask()
			require.NoError(t, err)
			require.Equal(t, want, resp.FinishReason, word)
		}
	}
	for _, word := range []chat.FinishReason{"error", "network_error", "insufficient_system_resource", "abort"} {
		m, _ := serve(t, pygenttest.Text("Half").WithFinish(word))
		_, err := m.Chat(t.Context(), ask())
		api := apiError(t, err)
		require.True(t, api.Retryable)
		require.Contains(t, api.Message, string(word))
	}
}

func TestAnUnknownWordForAnEndIsToldOnce(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Text("Hi.").WithFinish("because"), pygenttest.Text("Hi.").WithFinish("because"))
	var notices []string
	for range 2 {
		resp, err := m.ChatStream(t.Context(), ask(), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Equal(t, chat.FinishReason("because"), resp.FinishReason)
	}
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], `"because"`)
}

// A client lives long, and a server may invent words for ever.
func TestNotEveryUnknownWordForAnEndIsTold(t *testing.T) {
	t.Parallel()
	m, server := serve(t)
	told := 0
	for i := range 70 {
		server.Add(pygenttest.Text("Hi.").WithFinish(chat.FinishReason(fmt.Sprintf("because-%d", i))))
		_, err := m.ChatStream(t.Context(), ask(), countNotices(&told))
		require.NoError(t, err)
	}
	require.Equal(t, 64, told)
}

func countNotices(told *int) func(pygent.Delta) {
	return func(d pygent.Delta) {
		if d.Notice != "" {
			*told++
		}
	}
}

// TestSeveralChoicesEndTogether has an answer in several choices be cut off if one of them is.
func TestSeveralChoicesEndTogether(t *testing.T) {
	t.Parallel()
	for reasons, want := range map[string]chat.FinishReason{
		"stop length": chat.FinishLength, "length stop": chat.FinishLength, "stop content_filter": chat.FinishFilter,
		"length content_filter": chat.FinishLength, "content_filter length": chat.FinishLength, "stop stop": chat.FinishStop,
	} {
		first, second, _ := strings.Cut(reasons, " ")
		m, _ := serve(t, pygenttest.Raw(200, "application/json", fmt.Sprintf(`{"choices":[
			{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":%q},
			{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":%q}]}`, first, second)))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Equal(t, want, resp.FinishReason, reasons)
	}
}

func TestWhatOfAnAnswerIsLeftOutIsTold(t *testing.T) {
	t.Parallel()
	const two = `data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}` + "\n\n"
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, tt := range map[string]struct {
		body    string
		options []openai.Option
		notice  string
	}{
		"several were asked for": {two + end + "data: [DONE]\n\n", []openai.Option{openai.ExtraBody(map[string]any{"n": 2})},
			"the first of 2 answers counts: several were asked for (n)"},
		"one broke off": {two + end, nil, "a part of the answer was left out: the stream broke off before it ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := pygenttest.Raw(200, "text/event-stream", tt.body)
			s := pygenttest.NewServer(t, reply, reply)
			m := newModel(t, append(tt.options, openai.BaseURL(s.URL()))...)
			var notices []string
			note := func(d pygent.Delta) {
				if d.Notice != "" {
					notices = append(notices, d.Notice)
				}
			}
			resp, err := m.ChatStream(t.Context(), ask(), note)
			require.NoError(t, err)
			require.Equal(t, "a", resp.Message.Text())
			require.Equal(t, []string{tt.notice}, notices)
			_, err = m.ChatStream(t.Context(), ask(), note)
			require.NoError(t, err)
			if tt.options != nil {
				require.Len(t, notices, 1, "what the user asked for is told once")
			}
		})
	}
}

// TestAModelOfAnotherPackageEndsInItsOwnWords has the loop understand them too.
func TestAModelOfAnotherPackageEndsInItsOwnWords(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.Text("The answ").WithFinish("MAX_TOKENS"), pygenttest.Text("Oops").WithFinish("network_error"), pygenttest.Text("It is 42."))
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "It is 42.", result.Summary)
}

func TestAnAnswerThatIsFilteredInPartIsSaidToBe(t *testing.T) {
	t.Parallel()
	half := pygenttest.Text("The first half").WithFinish("SAFETY")
	var warned []string
	agent := newAgent(t, pygenttest.NewScriptedModel(half, half), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warned = append(warned, e.Text)
		}
	}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusTruncated, result.Status)
	require.Equal(t, "two answers in a row were cut off by the provider's content filter", result.Reason)
	require.Contains(t, warned, "the provider's content filter withheld the rest of the answer")
	require.Contains(t, texts(agent.History().Messages()), "Your last answer was cut off by the provider's content filter. Go on without what it may object to.")
}

func TestAnEndWithDoneAloneIsTakenTheSecondTime(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, bare, bare, bare)
	var notices []string
	ask := func() (*pygent.ChatResponse, error) {
		return m.ChatStream(t.Context(), ask(), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
	}
	_, err := ask()
	require.True(t, apiError(t, err).Retryable)
	for range 2 {
		resp, err := ask()
		require.NoError(t, err)
		require.Equal(t, "Hi.", resp.Message.Text())
	}
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "gives no finish_reason")
}

func TestAServerThatGivesReasonsIsNotTrustedWithoutOne(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, pygenttest.Text("Hi."), bare, bare)
	_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err)
	for range 2 {
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
		require.True(t, apiError(t, err).Retryable)
	}
}

// TestOneEndWithDoneAloneProvesNothing has a server give a reason after an answer without
// one: from then on it is one that gives reasons, and nothing is said of it.
func TestOneEndWithDoneAloneProvesNothing(t *testing.T) {
	t.Parallel()
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	counted := pygenttest.Raw(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"Hi."}}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	m, _ := serve(t, bare, pygenttest.Text("Hi."), counted, bare)
	told := 0
	chat := func() error {
		_, err := m.ChatStream(t.Context(), ask(), countNotices(&told))
		return err
	}
	require.True(t, apiError(t, chat()).Retryable)
	require.NoError(t, chat())
	require.NoError(t, chat())
	require.True(t, apiError(t, chat()).Retryable)
	require.Zero(t, told)
}

func TestAPlainAnswerWithoutAReasonProvesNothing(t *testing.T) {
	t.Parallel()
	plain := pygenttest.Raw(200, "application/json", `{"choices":[{"message":{"role":"assistant","content":"Hi."}}]}`)
	bare := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkDoneAlone)
	m, _ := serve(t, plain, bare, bare)
	_, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	_, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.True(t, apiError(t, err).Retryable)
	_, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err, "the server may give no reasons")
}

// TestAnswersThatBreakOffAreCounted has what was paid for count, and end the run.
func TestAnswersThatBreakOffAreCounted(t *testing.T) {
	t.Parallel()
	used := pygent.Usage{PromptTokens: 90, CompletionTokens: 10}
	broken := pygenttest.Text("Oops").WithFinish("network_error").WithUsage(used)
	said := pygenttest.Text("It is 42.").WithUsage(used)
	for name, model := range map[string]func(replies ...pygenttest.Reply) pygent.Model{
		"server": func(replies ...pygenttest.Reply) pygent.Model {
			m, _ := serve(t, replies...)
			return m
		},
		"another package": func(replies ...pygenttest.Reply) pygent.Model { return pygenttest.NewScriptedModel(replies...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := newAgentOn(t, nowhere{}, model(broken, said)).RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, int64(200), result.Usage.Total())
			result, err = newAgentOn(t, nowhere{}, model(broken, said)).RunUntilStop(t.Context(), "go", pygent.MaxTokens(100))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusBudget, result.Status)
			require.Equal(t, int64(100), result.Usage.Total())

			uncounted := pygenttest.Text("Oops").WithFinish("network_error")
			agent := newAgentOn(t, nowhere{}, model(uncounted, said), pygent.WithModelName("m"), pygent.WithPrices(map[string]pygent.Price{"m": {Prompt: 1000, Completion: 1000}}))
			result, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.MaxCost(1_000))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusReplied, result.Status, result.Reason)
		})
	}
}

// rawServer answers every request with the same bytes and closes the
// connection. It sends on got once per request.
func rawServer(t *testing.T, response string) (url string, got chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got = make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answerRaw(conn, response, got)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "http://" + l.Addr().String(), got
}

func answerRaw(conn net.Conn, response string, got chan<- struct{}) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return // the connection was never used
	}
	got <- struct{}{}
	if _, err := io.Copy(io.Discard, req.Body); err == nil {
		_, _ = io.WriteString(conn, response) // an error here shows in the client
	}
}

const (
	rawOK     = "HTTP/1.1 200 OK\r\n"
	rawChunks = rawOK + "Transfer-Encoding: chunked\r\n\r\n"
)

// brokenResponses are responses that a retry would not improve, and a part of
// the error about each.
var brokenResponses = []struct{ name, response, want string }{
	{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n", "that is not HTTP: is the base URL right"},
	{"TLS", "\x15\x03\x01\x00\x02\x02\x16\r\n", "with https:// where the server wants it"},
	{"a status that is no number", "HTTP/1.1 abc OK\r\n\r\n", "that is not HTTP"},
	{"a version that is none", "HTTP/x 200 OK\r\n\r\n", "that is not HTTP"},
	{"a header without a colon", rawOK + "nothing\r\n\r\n", "that is not HTTP"},
	{"a header that goes on from nothing", rawOK + " more: x\r\n\r\n", "that is not HTTP"},
	{"a header with a zero byte", rawOK + "x: \x00\r\n\r\n", "that is not HTTP"},
	{"a length that is no number", rawOK + "Content-Length: x\r\n\r\n", "that is not HTTP"},
	{"an empty length", rawOK + "Content-Length:\r\n\r\n", "that is not HTTP"},
	{"two lengths", rawOK + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "that is not HTTP"},
	{"a transfer encoding", rawOK + "Transfer-Encoding: x\r\n\r\n", "that is not HTTP"},
	{"two transfer encodings", rawOK + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "that is not HTTP"},
	{"a trailer that may not be one", rawOK + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n", "that is not HTTP"},
	{"a location that is no URL", "HTTP/1.1 307 x\r\nLocation: ://x\r\n\r\n", "that is not HTTP"},

	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "the server answered with status 204"},
	{"a reset", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "the server answered with status 205"},

	{"brotli", rawOK + "Content-Encoding: br\r\n\r\n\x0b\x02\x80hello\x03", `it is encoded as "br"`},
	{"zstd", rawOK + "Content-Encoding: zstd\r\n\r\n\x28\xb5\x2f\xfd\x04\x00", `it is encoded as "zstd"`},
	{"gzip that is none", rawOK + "Content-Encoding: gzip\r\n\r\n\x01\x02\x03", `it is encoded as "gzip"`},

	{"a long chunk extension", rawChunks + "5;" + strings.Repeat("x", 10_000) + "\r\ndata:\r\n", "in chunks that hold almost nothing"},
	{"many chunk extensions", rawChunks + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\n \r\n", 10), "in chunks that hold almost nothing"},

	{"a redirect to a file", "HTTP/1.1 307 x\r\nLocation: file:///etc/passwd\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
	{"a redirect to mail", "HTTP/1.1 308 x\r\nLocation: mailto:a@example.org\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
	{"a redirect to FTP", "HTTP/1.1 301 x\r\nLocation: ftp://example.org/v1\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
}

func TestBrokenResponsesAreNotAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, c := range brokenResponses {
		t.Run(c.name, func(t *testing.T) {
			url, got := rawServer(t, c.response)
			agent := newAgentOn(t, nowhere{}, newModel(t, openai.BaseURL(url+"/v1")))
			_, err := agent.Step(t.Context(), "Go.")
			require.ErrorContains(t, err, c.want)
			require.False(t, apiError(t, err).Retryable)
			require.Len(t, got, 1)
		})
	}
}

func TestBrokenConnectionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"nothing":                  "",
		"half of a head":           rawOK + "x: y\r\n",
		"an empty answer":          rawOK + "Connection: close\r\nContent-Length: 0\r\n\r\n",
		"half of an answer":        rawOK + "Content-Length: 100\r\n\r\ndata: {",
		"half of a chunk":          rawChunks + "5\r\nda",
		"half of a stream":         rawOK + "\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
		"half of a stream of gzip": rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			url, got := rawServer(t, response)
			agent := newAgentOn(t, nowhere{}, newModel(t, openai.BaseURL(url)), pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}))
			_, err := agent.Step(t.Context(), "Go.")
			require.True(t, apiError(t, err).Retryable, "%v", err)
			require.Len(t, got, 2)
		})
	}
}

// TestAnswersInOddFramesAreRead has answers that look broken but can be read.
func TestAnswersInOddFramesAreRead(t *testing.T) {
	t.Parallel()
	const stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	const plain = `{"choices":[{"message":{"content":"hi"}}]}`
	for name, response := range map[string]string{
		"lines that end in CR":              rawOK + "\r\n" + strings.ReplaceAll(stream, "\n", "\r"),
		"lines that end in CR LF":           rawOK + "\r\n" + strings.ReplaceAll(stream, "\n", "\r\n"),
		"gzip":                              rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(stream),
		"gzip of a plain answer":            rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(plain),
		"gzip in two parts":                 rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(stream[:20]) + gzipped(stream[20:]),
		"gzip that nothing tells of":        rawOK + "\r\n" + gzipped(plain),
		"an encoding that is not there":     rawOK + "Content-Encoding: gzip\r\n\r\n" + plain,
		"an encoding that is a character's": rawOK + "Content-Encoding: utf-8\r\n\r\n" + stream,
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := rawServer(t, response)
			resp, err := newModel(t, openai.BaseURL(url)).ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.NoError(t, err)
			require.Equal(t, "hi", resp.Message.Content)
		})
	}
	url, _ := rawServer(t, "HTTP/1.1 400 x\r\nContent-Encoding: gzip\r\n\r\n"+gzipped(`{"error":{"message":"too warm"}}`))
	_, err := newModel(t, openai.BaseURL(url)).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "(400): too warm")
}

// TestAnErrorStatusStands uses servers that send an error status and then do
// not end the response.
func TestAnErrorStatusStands(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusSwitchingProtocols, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "x")
				w.WriteHeader(status)
				if status >= 200 {
					_, _ = io.WriteString(w, "too warm") // an error here shows in the client
				}
				_ = http.NewResponseController(w).Flush() // likewise
				<-r.Context().Done()
			}))
			defer s.Close()
			_, err := newModel(t, openai.BaseURL(s.URL), openai.StallTimeouts(30*time.Second, 0)).Chat(t.Context(), ask())
			require.Equal(t, status, apiError(t, err).Status, "%v", err)
			require.False(t, apiError(t, err).Retryable)
			if status >= 200 {
				require.ErrorContains(t, err, "too warm")
			}
		})
	}
}

func TestBadGzipIsSaid(t *testing.T) {
	t.Parallel()
	good := gzipped(`{"choices":[{"message":{"content":"hi"}}]}`)
	for name, body := range map[string]string{
		"a head":       "\x1f\x8b, and nothing else of gzip",
		"what follows": good[:10] + "\xff\xff\xff\xff",
		"a checksum":   good[:len(good)-8] + "12345678",
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := rawServer(t, rawOK+"\r\n"+body)
			_, err := newModel(t, openai.BaseURL(url)).Chat(t.Context(), ask())
			require.ErrorContains(t, err, "the answer cannot be decompressed: ")
			require.True(t, apiError(t, err).Retryable)
		})
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // writing to memory does not fail
	_ = w.Close()
	return b.String()
}

// respond returns an HTTP client that answers every request with a body.
func respond(body func() io.Reader) *http.Client {
	return &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body()), Request: r}, nil
	})}
}

// The streams go on for ever, and no byte of them carries content.
func TestEndlessNothingIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for name, c := range map[string]struct {
		head, text string
		want       string
	}{
		"gzip without content":          {"", gzipped(""), "nothing comes out of 1 MiB of gzip"},
		"gzip that comes to its end":    {gzipped(chunk), gzipped(""), "nothing comes out of 1 MiB of gzip"},
		"gzip of comments":              {"", gzipped(strings.Repeat(": "+strings.Repeat("wait ", 100)+"\n\n", 10_000)), "32 MiB of the stream say nothing"},
		"gzip of chunks without choice": {gzipped(chunk), gzipped(strings.Repeat("data: {\"choices\":[],\"x\":\""+strings.Repeat("x", 1000)+"\"}\n\n", 10_000)), "32 MiB of the stream say nothing"},
		"comments":                      {chunk, ": " + strings.Repeat("wait ", 100) + "\n\n", "32 MiB of the stream say nothing"},
		"one comment":                   {":", strings.Repeat("x", 100), "32 MiB of the stream say nothing"},
		"data in between":               {"", chunk + ":" + strings.Repeat("x", 31*mega) + "\n", "a stream of more than 512 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, openai.HTTPClient(respond(func() io.Reader {
				return io.MultiReader(strings.NewReader(c.head), &cycle{text: c.text})
			})))
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.ErrorIs(t, err, openai.ErrAnswerTooLarge)
			require.ErrorContains(t, err, c.want)
			require.False(t, apiError(t, err).Retryable)
		})
	}
}
