package pygent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const testKey = "sk-secret-0123456789"

func newModel(t *testing.T, opts ...pygent.OpenAIOption) *pygent.OpenAIModel {
	t.Helper()
	defaults := []pygent.OpenAIOption{pygent.OpenAIEnv(nil), pygent.OpenAIKey(testKey)}
	m, err := pygent.NewOpenAIModel(append(defaults, opts...)...)
	require.NoError(t, err)
	t.Cleanup(m.CloseIdleConnections)
	return m
}

// serve returns a model of a server that gives the replies.
func serve(t *testing.T, replies ...pygenttest.Reply) (*pygent.OpenAIModel, *pygenttest.Server) {
	t.Helper()
	s := pygenttest.NewServer(t, replies...)
	return newModel(t, pygent.OpenAIBaseURL(s.URL())), s
}

func ask(messages ...pygent.Message) *pygent.ChatRequest {
	if len(messages) == 0 {
		messages = []pygent.Message{pygent.UserMessage("Go.")}
	}
	return &pygent.ChatRequest{Messages: messages}
}

// bothWays runs a test with a plain call and a streamed one.
func bothWays(t *testing.T, test func(t *testing.T, chat func(*pygent.OpenAIModel, *pygent.ChatRequest) (*pygent.ChatResponse, error))) {
	t.Run("plain", func(t *testing.T) {
		test(t, func(m *pygent.OpenAIModel, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return m.Chat(t.Context(), req)
		})
	})
	t.Run("stream", func(t *testing.T) {
		test(t, func(m *pygent.OpenAIModel, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return m.ChatStream(t.Context(), req, func(pygent.Delta) {})
		})
	})
}

type chatFunc = func(*pygent.OpenAIModel, *pygent.ChatRequest) (*pygent.ChatResponse, error)

func apiError(t *testing.T, err error) *pygent.APIError {
	t.Helper()
	var e *pygent.APIError
	require.ErrorAs(t, err, &e)
	return e
}

func TestOpenAIModelWithoutKeyAndURLSaysHowToSetThem(t *testing.T) {
	_, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil))
	require.ErrorIs(t, err, pygent.ErrNoModel)
	for _, way := range []string{"OPENAI_API_KEY", "openrouter.ai", "localhost:11434", "localhost:8080", "pygent demo"} {
		require.ErrorContains(t, err, way)
	}
}

func TestOpenAIModelTakesWhatIsNotGivenFromItsEnvironment(t *testing.T) {
	s := pygenttest.NewServer(t).Add(pygenttest.Text("a"), pygenttest.Text("b"))
	env := map[string]string{"OPENAI_API_KEY": testKey + "\n", "OPENAI_BASE_URL": s.URL(), "PYGENT_MODEL": "m"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(lookup))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, "Bearer "+testKey, s.Requests()[0].Header.Get("Authorization"))
	require.Equal(t, "m", s.Requests()[0].Chat.Model)

	m, err = pygent.NewOpenAIModel(pygent.OpenAIEnv(lookup), pygent.OpenAIKey("other"), pygent.OpenAIDefaultModel("n"))
	require.NoError(t, err)
	req := ask()
	req.Model = "o"
	_, err = m.Chat(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "Bearer other", s.Requests()[1].Header.Get("Authorization"))
	require.Equal(t, "o", s.Requests()[1].Chat.Model)
	require.Equal(t, "n", m.DefaultModel())
	require.Equal(t, "gpt-4.1-mini", newModel(t).DefaultModel())
}

func TestOpenAIModelIgnoresWhatTheSDKReadsItself(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "leaked")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leaked: leaked")
	s := pygenttest.NewServer(t, pygenttest.Text("a"))
	m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(s.URL()))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(s.Requests()[0].Header), "leaked")
	require.Empty(t, s.Requests()[0].Header.Get("Authorization"))
}

func TestOpenAIModelServesAzure(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("a"))
	base := strings.TrimSuffix(s.URL(), "/v1") + "/openai/deployments/d?api-version=2024-10-21"
	lookup := func(string) (string, bool) { return "not for Azure", true }
	m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(lookup), pygent.OpenAIBaseURL(base), pygent.OpenAIHeader("api-key", testKey))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	r := s.Requests()[0]
	require.Equal(t, "/openai/deployments/d/chat/completions", r.Path)
	require.Equal(t, "2024-10-21", r.Query.Get("api-version"))
	require.Equal(t, testKey, r.Header.Get("api-key"))
	require.Empty(t, r.Header.Get("Authorization"))
}

func TestNewOpenAIModelRefusesWhatCannotWork(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	cases := []struct {
		opt  pygent.OpenAIOption
		want string
	}{
		{pygent.OpenAIBaseURL("localhost:8080"), "want something like"},
		{pygent.OpenAIBaseURL("http://[bad"), "base URL"},
		{pygent.OpenAIBaseURL("http://user:hunter2@h/v1"), "credentials belong"},
		{pygent.OpenAIKey("a\nb"), "control characters"},
		{pygent.OpenAIMaxTokens(-1), "negative"},
		{pygent.OpenAIExtraBody(map[string]any{"messages": 1}), "messages"},
		{pygent.OpenAIExtraBody(map[string]any{"f": func() {}}), "field f"},
		{pygent.OpenAICAFile("/nowhere.pem"), "CA file"},
		{pygent.OpenAICAFile(empty), "no PEM certificate"},
	}
	for _, c := range cases {
		_, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIKey(testKey), c.opt)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIKey(testKey), pygent.OpenAICAFile(empty), pygent.OpenAIHTTPClient(http.DefaultClient))
	require.ErrorContains(t, err, "cannot be combined")
}

func TestOpenAIModelNeverShowsItsKey(t *testing.T) {
	m, _ := serve(t, pygenttest.Status(401, "invalid_api_key", "Incorrect API key provided: "+testKey))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "model", m)
	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	shown := fmt.Sprintf("%v %+v %#v %s %s %s %v", m, m, m, m, log.String(), encoded, err)
	require.NotContains(t, shown, testKey)
	require.Contains(t, shown, "gpt-4.1-mini")
	require.ErrorContains(t, err, "[key]")
	require.ErrorContains(t, err, "is the API key right")
}

func TestOpenAIModelSendsItsOptions(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()+"/"),
		pygent.OpenAIHeader("X-Title", "pygent"),
		pygent.OpenAIMaxTokens(7), pygent.OpenAIMaxTokensField("n_predict"),
		pygent.OpenAIParallelToolCalls(false),
		pygent.OpenAIExtraBody(map[string]any{"temperature": 0.5, "provider": map[string]any{"only": []string{"x"}}}))
	req := ask()
	req.Tools = []pygent.ToolSpec{{Name: "bash", Description: "a <b>", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "stop"}}
	_, err := m.ChatStream(t.Context(), req, func(pygent.Delta) {})
	require.NoError(t, err)
	got := s.Requests()[0]
	require.Equal(t, "pygent", got.Header.Get("X-Title"))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, `{"model":"gpt-4.1-mini","stream":true,"n_predict":7,"parallel_tool_calls":false,"provider":{"only":["x"]},`+
		`"stream_options":{"include_usage":true},"temperature":0.5,"tools":[`+
		`{"type":"function","function":{"name":"bash","description":"a <b>","parameters":{"type":"object"}}},`+
		`{"type":"function","function":{"name":"stop","parameters":{"type":"object","properties":{}}}}],`+
		`"messages":[{"role":"user","content":"Go."}]}`, string(got.Body))

	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, `{"model":"gpt-4.1-mini","n_predict":7,"provider":{"only":["x"]},"temperature":0.5,`+
		`"messages":[{"role":"user","content":"Go."}]}`, string(s.Requests()[1].Body))
}

func TestOpenAIModelTrustsTheCAFile(t *testing.T) {
	inner := pygenttest.NewServer(t, pygenttest.Text("a"))
	s := httptest.NewUnstartedServer(inner)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	_, err := newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "CA file")
	require.False(t, apiError(t, err).Retryable)

	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, cert, 0o600))
	_, err = newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1"), pygent.OpenAICAFile(file)).Chat(t.Context(), ask())
	require.NoError(t, err)
}

func TestOpenAIModelReadsAnAnswer(t *testing.T) {
	usage := pygent.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 3, ReasoningTokens: 2}
	bothWays(t, func(t *testing.T, chat chatFunc) {
		m, _ := serve(t, pygenttest.TextAndCalls("Hello", pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
			WithReasoning("Hm.").WithUsage(usage))
		resp, err := chat(m, ask())
		require.NoError(t, err)
		require.Equal(t, "Hello", resp.Message.Content)
		require.Equal(t, pygent.RoleAssistant, resp.Message.Role)
		require.Equal(t, []pygent.ToolCall{{ID: "call_1", Name: "bash", Arguments: `{"cmd":"ls"}`}}, resp.Message.ToolCalls)
		require.Equal(t, `"Hm."`, string(resp.Message.Extra["reasoning_content"]))
		require.Equal(t, pygent.FinishToolCalls, resp.FinishReason)
		require.Equal(t, usage, resp.Usage)
		require.NotEmpty(t, resp.ID)
	})
}

func TestChatStreamEmitsTheAnswer(t *testing.T) {
	m, _ := serve(t, pygenttest.Text("Hello, world, in pieces.").WithReasoning("Let me think of it."))
	var text, reasoning string
	_, err := m.ChatStream(t.Context(), ask(), func(d pygent.Delta) {
		text += d.Text
		reasoning += d.Reasoning
		require.Empty(t, d.Notice)
	})
	require.NoError(t, err)
	require.Equal(t, "Hello, world, in pieces.", text)
	require.Equal(t, "Let me think of it.", reasoning)
}

func TestOpenAIModelReadsThroughEveryQuirk(t *testing.T) {
	reply := pygenttest.TextAndCalls("Some text first.",
		pygenttest.Call("bash", map[string]any{"cmd": "a rather long command"}),
		pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
		WithCallIDs("a", "b").
		WithUsage(pygent.Usage{PromptTokens: 10, CompletionTokens: 100})
	bothWays(t, func(t *testing.T, chat chatFunc) {
		m, _ := serve(t, reply)
		want, err := chat(m, ask())
		require.NoError(t, err)
		for _, q := range pygenttest.WireQuirks() {
			t.Run(string(q), func(t *testing.T) {
				m, _ := serve(t, reply.WithQuirks(q))
				got, err := chat(m, ask())
				require.NoError(t, err)
				require.Equal(t, want.Message.ToolCalls, got.Message.ToolCalls)
				require.Equal(t, want.Message.Content, got.Message.Content)
				require.Equal(t, want.Message.Extra, got.Message.Extra)
				require.Equal(t, want.FinishReason, got.FinishReason)
				require.Equal(t, want.Usage, got.Usage)
			})
		}
	})
}

func TestOpenAIModelMakesEveryMessageLegal(t *testing.T) {
	bothWays(t, func(t *testing.T, chat chatFunc) {
		for _, q := range []pygenttest.Quirk{pygenttest.QuirkNoCallIDs, pygenttest.QuirkDuplicateCallIDs} {
			m, s := serve(t, pygenttest.Calls(pygenttest.Call("bash", nil), pygenttest.Call("bash", nil)).WithQuirks(q), pygenttest.Text("Done."))
			resp, err := chat(m, ask())
			require.NoError(t, err)
			require.Len(t, resp.Message.ToolCalls, 2)
			a, b := resp.Message.ToolCalls[0].ID, resp.Message.ToolCalls[1].ID
			require.NotEqual(t, a, b)
			_, err = chat(m, ask(pygent.UserMessage("Go."), resp.Message, pygent.ToolMessage(a, "x"), pygent.ToolMessage(b, "y")))
			require.NoError(t, err)
			require.NoError(t, s.Requests()[1].Err)
		}
	})
}

func TestCallIDsDoNotComeTwiceInAConversation(t *testing.T) {
	call := pygenttest.Call("bash", nil).WithCallIDs("call_0")
	m, _ := serve(t, call, call)
	first, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	second, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), first.Message, pygent.ToolMessage("call_0", "x")))
	require.NoError(t, err)
	require.NotEqual(t, "call_0", second.Message.ToolCalls[0].ID)
}

func TestUnknownFieldsGoBackToTheServer(t *testing.T) {
	bothWays(t, func(t *testing.T, chat chatFunc) {
		reply := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkUnknownFields)
		s := pygenttest.NewServer(t, reply, pygenttest.Text("b"), pygenttest.Text("c"))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()))
		resp, err := chat(m, ask())
		require.NoError(t, err)
		again := ask(pygent.UserMessage("Go."), resp.Message, pygent.UserMessage("On."))
		_, err = chat(m, again)
		require.NoError(t, err)
		sent := s.Requests()[1].Chat.Messages[1]
		require.JSONEq(t, `"The user wants this done."`, string(sent.Extra["reasoning_content"]))
		require.JSONEq(t, `[{"type":"reasoning.text","text":"The user wants this done.","format":"unknown","index":0}]`, string(sent.Extra["reasoning_details"]))

		quiet := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAISendReasoning(false))
		_, err = chat(quiet, again)
		require.NoError(t, err)
		require.Empty(t, s.Requests()[2].Chat.Messages[1].Extra)
		require.NotEmpty(t, resp.Message.Extra, "the history keeps it")
	})
}

func TestBrokenAnswersAreAPIErrors(t *testing.T) {
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

func TestStreamsAreReadAsTheyCome(t *testing.T) {
	done := `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`
	for name, body := range map[string]string{
		"no blank line at the end": "data: " + done,
		"single newlines":          `data: {"choices":[{"delta":{"content":""}}]}` + "\ndata: " + done + "\ndata: [DONE]\n",
		"CRLF":                     "data: " + done + "\r\n\r\ndata: [DONE]\r\n\r\n",
		"a byte order mark":        "\uFEFFdata: " + done + "\n\n",
		"comments first":           ": waiting\n\n: waiting\n\ndata: " + done + "\n\n",
		"JSON after all":           "  \n" + strings.Replace(done, "delta", "message", 1),
		"nothing after the end":    "data: " + done + "\n\nevent: oops\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, chat chatFunc) {
				m, _ := serve(t, pygenttest.Raw(200, "text/event-stream", body))
				resp, err := chat(m, ask())
				require.NoError(t, err)
				require.Equal(t, "a", resp.Message.Content)
			})
		})
	}
}

func TestEndlessAnswersAreRefused(t *testing.T) {
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
		{"without end", pygenttest.Status(429, "", "x").WithHeader("Retry-After", "1e99"), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 1<<63 - 1}},
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
	m, _ := serve(t, pygenttest.Status(503, "", "x").WithHeader("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)))
	_, err := m.Chat(t.Context(), ask())
	require.InDelta(t, time.Hour, apiError(t, err).RetryAfter, float64(time.Minute))
}

func TestErrorsSayWhatTheServerSaid(t *testing.T) {
	cases := []struct {
		reply pygenttest.Reply
		want  []string
	}{
		{pygenttest.Status(400, "some_code", "The words.").WithHeader("x-request-id", "req_9"), []string{"400", "some_code", "The words."}},
		{pygenttest.Raw(400, "application/json", `{"error":"Just words."}`), []string{"Just words."}},
		{pygenttest.Raw(422, "application/json", `{"detail":[{"loc":["body","x"],"msg":"wrong"}]}`), []string{"wrong"}},
		{pygenttest.Raw(400, "text/plain", "Bare\nwords"), []string{"Bare words"}},
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
	s := httptest.NewServer(http.NotFoundHandler())
	closed := s.URL
	s.Close()
	_, err := newModel(t, pygent.OpenAIBaseURL(closed+"/v1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "is the server running there?")
	require.ErrorContains(t, err, closed)
	require.True(t, apiError(t, err).Retryable)

	_, fake := serve(t)
	_, err = newModel(t, pygent.OpenAIBaseURL("https"+strings.TrimPrefix(fake.URL(), "http"))).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "begin with http://")
	require.False(t, apiError(t, err).Retryable)

	lost := httptest.NewServer(http.NotFoundHandler())
	defer lost.Close()
	_, err = newModel(t, pygent.OpenAIBaseURL(lost.URL)).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "commonly end in /v1")

	keyless, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(fake.URL()))
	require.NoError(t, err)
	fake.Add(pygenttest.Status(401, "", "No."))
	_, err = keyless.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "no API key was sent")
}

func TestCancelledCallsReturnTheCause(t *testing.T) {
	cause := errors.New("the user had enough")
	for name, reply := range map[string]pygenttest.Reply{
		"before the first byte": pygenttest.Text("a").WithGate(nil),
		"between chunks":        pygenttest.Text("a, b, c and d").WithChunkGate(nil),
	} {
		t.Run(name, func(t *testing.T) {
			m, s := serve(t, reply)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				if s.WaitRequests(t.Context(), 1) == nil {
					cancel(cause)
				}
			}()
			_, err := m.ChatStream(ctx, ask(), func(pygent.Delta) {})
			require.ErrorIs(t, err, cause)
			var api *pygent.APIError
			require.False(t, errors.As(err, &api))
			_, err = m.Chat(ctx, ask())
			require.ErrorIs(t, err, cause)
			require.Len(t, s.Requests(), 1)
		})
	}
}

// pipeTransport answers with a body that the test writes. It needs no network,
// so that it works in a bubble of synctest.
type pipeTransport struct {
	hang  bool // no response at all
	write func(w *io.PipeWriter)
}

func (p pipeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	pr, pw := io.Pipe()
	go p.write(pw)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: pr, Request: r}, nil
}

func TestStalledCallsEnd(t *testing.T) {
	const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	const last = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	cases := []struct {
		name  string
		rt    pipeTransport
		want  string // empty when the call succeeds
		after time.Duration
	}{
		{"no response", pipeTransport{hang: true}, "no answer came within 5m0s", 5 * time.Minute},
		{"no first byte", pipeTransport{write: func(*io.PipeWriter) {}}, "no answer came within 5m0s", 5 * time.Minute},
		{"in the middle", pipeTransport{write: func(w *io.PipeWriter) {
			time.Sleep(4 * time.Minute)
			io.WriteString(w, chunk)
		}}, "nothing came for 3m0s", 7 * time.Minute},
		{"a slow server", pipeTransport{write: func(w *io.PipeWriter) {
			for range 5 {
				time.Sleep(2 * time.Minute)
				io.WriteString(w, chunk)
			}
			io.WriteString(w, last)
			w.Close()
		}}, "", 10 * time.Minute},
		{"open after the end", pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, last+"data: [DONE]\n\n")
		}}, "", 50 * time.Millisecond},
		{"open after the finish reason", pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, last)
		}}, "", 3 * time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: c.rt}))
				start := time.Now()
				_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
				require.Equal(t, c.after, time.Since(start))
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				require.True(t, apiError(t, err).Retryable)
			})
		})
	}
}

func TestStallTimeoutsCanBeTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := pipeTransport{write: func(w *io.PipeWriter) {
			time.Sleep(time.Hour)
			io.WriteString(w, "{\"choices\":[{\"message\":")
			time.Sleep(time.Hour)
			io.WriteString(w, "{\"content\":\"late\"}}]}")
			w.Close()
		}}
		m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: rt}), pygent.OpenAIStallTimeouts(0, 0))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Equal(t, "late", resp.Message.Content)
		require.Equal(t, pygent.FinishStop, resp.FinishReason)
	})
}

func TestASlowListenerIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
			w.Close()
		}}
		m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: rt}))
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) { time.Sleep(time.Hour) })
		require.NoError(t, err)
	})
}

func TestRefusedParametersAreDroppedOnce(t *testing.T) {
	raw := func(status int, body string) pygenttest.Reply {
		return pygenttest.Raw(status, "application/json", body)
	}
	cases := []struct {
		name   string
		reply  pygenttest.Reply
		opts   []pygent.OpenAIOption
		gone   string
		added  string
		notice string
	}{
		{"stream_options", raw(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`), nil, "stream_options", "", "dropped parameter stream_options"},
		{"parallel_tool_calls", raw(422, `{"detail":[{"type":"extra_forbidden","loc":["body","parallel_tool_calls"],"msg":"Extra inputs are not permitted"}]}`),
			[]pygent.OpenAIOption{pygent.OpenAIParallelToolCalls(true)}, "parallel_tool_calls", "", "dropped parameter parallel_tool_calls"},
		{"temperature", pygenttest.UnsupportedParameter("temperature"),
			[]pygent.OpenAIOption{pygent.OpenAIExtraBody(map[string]any{"temperature": 0, "top_p": 1})}, "temperature", "", "dropped parameter temperature"},
		{"the limit's name", pygenttest.UnsupportedParameter("max_completion_tokens"),
			[]pygent.OpenAIOption{pygent.OpenAIMaxTokens(5)}, "max_completion_tokens", "max_tokens", "sent max_completion_tokens as max_tokens"},
		{"the limit's old name", raw(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`),
			[]pygent.OpenAIOption{pygent.OpenAIMaxTokens(5), pygent.OpenAIMaxTokensField("max_tokens")}, "max_tokens", "max_completion_tokens", "sent max_tokens as max_completion_tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pygenttest.NewServer(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
			m := newModel(t, append(c.opts, pygent.OpenAIBaseURL(s.URL()))...)
			req := ask()
			req.Tools = []pygent.ToolSpec{{Name: "bash"}}
			var notices []string
			note := func(d pygent.Delta) {
				if d.Notice != "" {
					notices = append(notices, d.Notice)
				}
			}
			_, err := m.ChatStream(t.Context(), req, note)
			require.NoError(t, err)
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], c.notice)
			_, err = m.ChatStream(t.Context(), req, note)
			require.NoError(t, err)
			require.Len(t, notices, 1, "it is remembered")
			require.Len(t, s.Requests(), 3)
			require.Contains(t, s.Requests()[0].Fields, c.gone)
			for _, r := range s.Requests()[1:] {
				require.NotContains(t, r.Fields, c.gone)
				require.Contains(t, r.Fields, "tools")
				if c.added != "" {
					require.Equal(t, "5", string(r.Fields[c.added]))
				}
			}
		})
	}
}

func TestWhatIsLearnedHoldsForTheModelsName(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("temperature"), pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIExtraBody(map[string]any{"temperature": 0}))
	_, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	other := ask()
	other.Model = "other"
	_, err = m.Chat(t.Context(), other)
	require.NoError(t, err)
	require.NotContains(t, s.Requests()[1].Fields, "temperature")
	require.Contains(t, s.Requests()[2].Fields, "temperature")
}

func TestRefusalsOfTheSameParameterEnd(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("max_tokens")).RepeatLast()
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIMaxTokens(5), pygent.OpenAIMaxTokensField("max_tokens"))
	_, err := m.Chat(t.Context(), ask())
	require.Equal(t, 400, apiError(t, err).Status)
	require.Less(t, len(s.Requests()), 4)
}

func TestOtherRefusalsAreNotAdaptedTo(t *testing.T) {
	for _, reply := range []pygenttest.Reply{
		pygenttest.UnsupportedParameter("messages"),
		pygenttest.UnsupportedParameter("tools"),
		pygenttest.Status(400, "", "The word max_tokens_field only contains it."),
		pygenttest.ContextTooLarge(5),
		pygenttest.Status(429, "", "temperature"),
	} {
		s := pygenttest.NewServer(t, reply)
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIMaxTokens(5), pygent.OpenAIExtraBody(map[string]any{"temperature": 1}))
		_, err := m.Chat(t.Context(), ask())
		apiError(t, err)
		require.Len(t, s.Requests(), 1)
	}
}

func TestRefusedFieldsOfMessagesAreLeftOut(t *testing.T) {
	s := pygenttest.NewServer(t,
		pygenttest.Status(400, "", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
		pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()))
	answer := pygent.AssistantMessage("Hi.")
	answer.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"r"`), "kept": json.RawMessage(`1`)}
	for range 2 {
		_, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), answer, pygent.UserMessage("On.")))
		require.NoError(t, err)
	}
	require.Len(t, s.Requests(), 3)
	for _, r := range s.Requests()[1:] {
		require.NotContains(t, r.Chat.Messages[1].Extra, "reasoning_content")
		require.Contains(t, r.Chat.Messages[1].Extra, "kept")
	}
}

func TestRejectedImagesBecomePlaceholders(t *testing.T) {
	image := pygent.Message{Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "Look:"}, {ImageURL: "data:image/png;base64,AAAA"}}}
	cases := []struct {
		reply      pygenttest.Reply
		remembered bool
	}{
		{pygenttest.Status(404, "", "No endpoints found that support image input"), true},
		{pygenttest.Status(500, "", "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), true},
		{pygenttest.Status(422, "", "Failed to deserialize: unknown variant `image_url`, expected `text`"), true},
		{pygenttest.Status(400, "", "Invalid image data"), false},
	}
	for _, c := range cases {
		m, s := serve(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
		var notices []string
		_, err := m.ChatStream(t.Context(), ask(image), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Equal(t, []string{"left images out: the model does not accept them"}, notices)
		require.Equal(t, "Look:\n[image left out: the model does not accept images]", s.Requests()[1].Chat.Messages[0].Content)
		_, err = m.Chat(t.Context(), ask(image))
		require.NoError(t, err)
		require.Equal(t, c.remembered, !s.Requests()[2].Chat.Messages[0].HasImages())
	}
}

func TestImagesAreNotBlamedWithoutImages(t *testing.T) {
	m, s := serve(t, pygenttest.Status(400, "", "image input is not supported"))
	_, err := m.Chat(t.Context(), ask())
	require.Error(t, err)
	require.Len(t, s.Requests(), 1)
}

func TestOpenAIModelServesManyAtOnce(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		return pygenttest.Text(req.Messages[0].Content)
	})).RepeatLast()
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := fmt.Sprint("number ", i)
			resp, err := m.ChatStream(t.Context(), ask(pygent.UserMessage(want)), func(pygent.Delta) {})
			if err != nil || resp.Message.Content != want {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	wg.Wait()
}
