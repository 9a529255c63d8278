package pygent_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
	bothWays(t, func(t *testing.T, chat chatFunc) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				m, s := serve(t, c.reply)
				_, err := chat(m, ask())
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
	_, err := newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1")).ChatStream(t.Context(), ask(), func(pygent.Delta) {})
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
	bothWays(t, func(t *testing.T, chat chatFunc) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				m, s := serve(t, c.reply)
				_, err := chat(m, ask())
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
		{pygenttest.Raw(400, "application/json", `{"error":{"code":400,"message":"No."}}`), []string{"status 400: No."}},
		{pygenttest.Raw(400, "text/plain", "Bare\nwords"), []string{"Bare words"}},
		{pygenttest.Raw(403, "application/json", `{"Message":"Not you."}`), []string{"status 403: Not you."}},
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
		_, err := newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1"+query)).Chat(t.Context(), ask())
		require.Equal(t, "req_9", apiError(t, err).RequestID)
	}
}

func TestConnectionErrorsCarryHints(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	closed := s.URL
	s.Close()
	_, err := newModel(t, pygent.OpenAIBaseURL(closed+"/v1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "is the server running there?")
	require.ErrorContains(t, err, closed)
	require.False(t, apiError(t, err).Retryable, "no server has ever answered there")

	_, fake := serve(t)
	_, err = newModel(t, pygent.OpenAIBaseURL("https"+strings.TrimPrefix(fake.URL(), "http"))).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "begin with http://")
	require.False(t, apiError(t, err).Retryable)

	lost := httptest.NewServer(http.NotFoundHandler())
	model := newModel(t, pygent.OpenAIBaseURL(lost.URL))
	_, err = model.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "commonly end in /v1")
	require.ErrorContains(t, err, "asked "+lost.URL+"/chat/completions")
	lost.Close()
	_, _ = model.Chat(t.Context(), ask()) // may still take the old connection
	_, err = model.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "is the server running there?")
	require.True(t, apiError(t, err).Retryable, "the server has answered before")

	keyless, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(fake.URL()))
	require.NoError(t, err)
	fake.Add(pygenttest.Status(401, "", "No."))
	_, err = keyless.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "no API key was sent")
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
		agent := newAgentOn(t, newTestRuntime(t, pygent.NewLocalRuntime), newModel(t, pygent.OpenAIBaseURL("http://"+listener.Addr().String()+"/v1")), often, pygent.OnEvent(func(e pygent.Event) {
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
