package pygenttest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestServerAnswersPlainAndRecords(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.TextAndCalls("I look.", pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
		WithHeader("X-Request-Id", "req_1"))
	status, header, text, err := answer(t, s, plainBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.Equal(t, "req_1", header.Get("X-Request-Id"))
	c := decode(t, text)
	require.Equal(t, "chatcmpl-1", c.ID)
	require.Equal(t, "I look.", c.Choices[0].Message.Content)
	require.Equal(t, []pygent.ToolCall{{ID: "call_1", Name: "bash", Arguments: `{"cmd":"ls"}`}}, c.Choices[0].Message.ToolCalls)
	require.Equal(t, chat.FinishToolCalls, *c.Choices[0].FinishReason)
	require.NotZero(t, c.Usage.PromptTokens)

	require.NoError(t, s.WaitRequests(t.Context(), 1))
	require.Len(t, s.Requests(), 1)
	req := s.Requests()[0]
	require.Equal(t, http.MethodPost, req.Method)
	require.Equal(t, "/v1/chat/completions", req.Path)
	require.Equal(t, "Bearer sk-scripted", req.Header.Get("Authorization"))
	require.Equal(t, plainBody, string(req.Body))
	require.Equal(t, "m1", req.Chat.Model)
	require.Equal(t, "hi", req.Chat.Messages[0].Content)
	require.Equal(t, []chat.ToolSpec{{Name: "bash", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}}, req.Chat.Tools)
	require.Equal(t, json.RawMessage("0.5"), req.Fields["temperature"])
	require.False(t, req.Stream)
	require.NoError(t, req.Err)
}

// A server decodes once what requests have in common. Nothing of one request shows in
// another.
func TestServerTellsRequestsApart(t *testing.T) {
	chat := func(messages ...string) string {
		return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
	}
	responses := func(items ...string) string {
		return `{"model":"m","input":[` + strings.Join(items, ",") + `]}`
	}
	const hi, bye, part = `{"role":"user","content":"hi"}`, `{"role":"user","content":"bye"}`, `{"role":"user","content":[{"type":"text","text":"look"}]}`
	const call, result = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":"done"}`
	var read []string
	s := pygenttest.NewServer(t, pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		for i := range req.Messages { // and change all of it
			m := &req.Messages[i]
			read, m.Content = append(read, m.Content), "changed"
			for j := range m.Parts {
				read, m.Parts[j].Text = append(read, m.Parts[j].Text), "changed"
			}
			for j := range m.ToolCalls {
				read, m.ToolCalls[j].Name = append(read, m.ToolCalls[j].Name), "changed"
			}
		}
		return pygenttest.Text("ok")
	})).RepeatLast()
	for round := range 3 {
		for _, tt := range []struct {
			path, body string
			status     int
		}{
			{"/chat/completions", chat(hi, part), 200},
			{"/chat/completions", chat(bye, hi, part), 200},
			{"/chat/completions", chat(hi, `{"role":"user"}`), 400},
			{"/chat/completions", chat(hi, `{"content":"no role"}`), 400},
			{"/responses", responses(hi, call, result, hi), 200},
			{"/responses", responses(hi, call, hi), 400},
		} {
			resp, err := http.Post(s.URL()+tt.path, "application/json", strings.NewReader(tt.body))
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.status, resp.StatusCode, "round %d: %s: %s", round, tt.body, text)
		}
	}
	once := "hi  look bye hi  look hi  f done hi "
	require.Equal(t, strings.Repeat(once, 3), strings.Join(read, " ")+" ")
}

func TestServerStreams(t *testing.T) {
	text := "grüße, 世界! and then some more words"
	s := pygenttest.NewServer(t, pygenttest.TextAndCalls(text,
		pygenttest.Call("bash", map[string]any{"cmd": "a rather long command"}), pygenttest.Call("stop", nil)).
		WithReasoning("I think about it.").WithUsage(pygent.Usage{PromptTokens: 7, CompletionTokens: 2})).Loop()
	for _, tt := range []struct {
		body  string
		usage *pygent.Usage
	}{{streamBody, nil}, {usageBody, &pygent.Usage{PromptTokens: 7, CompletionTokens: 2}}} {
		got := assemble(t, stream(t, s, tt.body))
		require.Equal(t, text, got.text)
		require.Equal(t, "I think about it.", got.reasoning)
		require.Equal(t, []string{"bash", "stop"}, got.names)
		require.Equal(t, []string{`{"cmd":"a rather long command"}`, "{}"}, got.arguments)
		require.Equal(t, chat.FinishToolCalls, got.finish)
		require.Equal(t, tt.usage, got.usage)
	}
}

func TestServerInjectsErrors(t *testing.T) {
	tests := map[string]struct {
		reply      pygenttest.Reply
		status     int
		code, typ  string
		retryAfter string
		param      string
	}{
		"rate limit":     {pygenttest.RateLimited(2 * time.Second), 429, "rate_limit_exceeded", "requests", "2", ""},
		"short wait":     {pygenttest.RateLimited(1500 * time.Millisecond), 429, "rate_limit_exceeded", "requests", "2", ""},
		"quota":          {pygenttest.QuotaExceeded(), 429, "insufficient_quota", "insufficient_quota", "", ""},
		"overloaded":     {pygenttest.Overloaded(), 503, "server_error", "server_error", "", ""},
		"context":        {pygenttest.ContextTooLarge(100), 400, "context_length_exceeded", "invalid_request_error", "", ""},
		"parameter":      {pygenttest.UnsupportedParameter("temperature"), 400, "unsupported_parameter", "invalid_request_error", "", "temperature"},
		"own type":       {pygenttest.Status(401, "invalid_api_key", "no").WithErrorType("auth"), 401, "invalid_api_key", "auth", "", ""},
		"any error":      {pygenttest.Error(errors.New("boom")), 500, "server_error", "server_error", "", ""},
		"script is over": {pygenttest.Status(1, "", ""), 422, "script_ended", "invalid_request_error", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := pygenttest.NewServer(t, tt.reply).Loop()
			for _, body := range []string{plainBody, streamBody} {
				status, header, text, err := answer(t, s, body)
				require.NoError(t, err)
				require.Equal(t, tt.status, status)
				require.Equal(t, tt.retryAfter, header.Get("Retry-After"))
				c := decode(t, text)
				require.Equal(t, tt.code, c.Error.Code)
				require.Equal(t, tt.typ, c.Error.Type)
				require.Equal(t, tt.param, c.Error.Param)
				require.NotEmpty(t, c.Error.Message)
			}
		})
	}
}

func TestServerCutsConnections(t *testing.T) {
	long := pygenttest.Text("a text that takes several pieces")
	s := pygenttest.NewServer(t)

	for _, body := range []string{plainBody, streamBody} {
		s.Add(pygenttest.Disconnect(), pygenttest.Error(&pygent.APIError{Retryable: true}))
		for range 2 {
			_, _, _, err := answer(t, s, body)
			require.ErrorIs(t, err, io.EOF)
		}
	}

	s.Add(long.CutAfter(1), long.CutAfter(2), long.CutAfter(100))
	_, _, text, err := answer(t, s, plainBody)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotEmpty(t, text)
	_, _, text, err = answer(t, s, streamBody)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Len(t, events(t, text), 3, "the role and two pieces")
	_, _, text, err = answer(t, s, streamBody)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Contains(t, text, "pieces")
	require.NotContains(t, text, `"finish_reason":"stop"`)
}

func TestServerSendsErrorsInsideAnAnswer(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("a text that takes several pieces").FailAfter(1, "rate_limit_exceeded", "slow down")).Loop()
	status, _, text, err := answer(t, s, plainBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "rate_limit_exceeded", decode(t, text).Error.Code)

	_, _, text, err = answer(t, s, streamBody)
	require.NoError(t, err)
	got := events(t, text)
	require.Len(t, got, 3, "the role, a piece, the error")
	require.Equal(t, "slow down", decode(t, got[2]).Error.Message)
}

func TestServerSendsRawAnswers(t *testing.T) {
	s := pygenttest.NewServer(t,
		pygenttest.HTML(502),
		pygenttest.Malformed(),
		pygenttest.Raw(200, "application/json", "0123456789").CutAfter(1),
		pygenttest.SSE(`{"a":1}`, "not json"),
		pygenttest.SSE("one", "two").CutAfter(1),
		pygenttest.SSE("one", "two").FailAfter(1, "server_error", "oops"),
	)
	status, header, text, err := answer(t, s, streamBody)
	require.NoError(t, err)
	require.Equal(t, 502, status)
	require.Equal(t, "text/html", header.Get("Content-Type"))
	require.Contains(t, text, "Bad Gateway")

	_, _, text, err = answer(t, s, plainBody)
	require.NoError(t, err)
	require.False(t, json.Valid([]byte(text)))

	_, _, text, err = answer(t, s, plainBody)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "01234", text)

	_, _, text, err = answer(t, s, plainBody)
	require.NoError(t, err)
	require.Equal(t, "data: {\"a\":1}\n\ndata: not json\n\n", text)

	_, _, text, err = answer(t, s, streamBody)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "data: one\n\n", text)

	_, _, text, err = answer(t, s, streamBody)
	require.NoError(t, err)
	require.Len(t, events(t, text), 2)
}

func TestServerHoldsAnswersBack(t *testing.T) {
	gate := make(chan struct{})
	s := pygenttest.NewServer(t, pygenttest.Text("a text that takes several pieces").WithChunkGate(gate), pygenttest.Text("x").WithGate(nil))
	resp, err := post(t, s, streamBody)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for range 4 { // the role and the first piece, each with an empty line
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	gate <- struct{}{}
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "data: ")
	close(gate)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.True(t, bytes.HasSuffix(rest, []byte("data: [DONE]\n\n")))

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if s.WaitRequests(ctx, 2) == nil {
			cancel()
		}
	}()
	_, err = postContext(ctx, s, plainBody)
	require.ErrorIs(t, err, context.Canceled)
}

func TestServerCloseEndsAnswersBeingGiven(t *testing.T) {
	s, err := pygenttest.Start(pygenttest.Text("never").WithGate(nil), pygenttest.Text("a text in several pieces").WithChunkGate(nil))
	require.NoError(t, err)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			resp, err := postContext(context.Background(), s, streamBody)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				err = errors.Join(err, resp.Body.Close())
			}
			done <- err
		}()
	}
	require.NoError(t, s.WaitRequests(t.Context(), 2))
	s.Close()
	require.Error(t, <-done)
	require.Error(t, <-done)
	s.Close()
}

func TestServerRefusesWhatNoProviderTakes(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("unused"))
	tests := map[string]string{
		`{"messages":`:                "could not parse the JSON body",
		`{"model":"m","messages":3}`:  "expected an array of objects, but got a number",
		`{"model":"m"}`:               "Missing required parameter: 'messages'",
		`{"model":"m","messages":[]}`: "empty array",
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`: "did not have response messages: a",
	}
	for body, want := range tests {
		status, _, text, err := answer(t, s, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, decode(t, text).Error.Message, want)
	}
	require.Error(t, s.Requests()[0].Err)
	require.Equal(t, 1, s.Remaining())
}

func TestServerKnowsItsPaths(t *testing.T) {
	s := pygenttest.NewServer(t)
	for path, want := range map[string]int{"/models": 200, "/chat/completions": 405, "/else": 404} {
		resp, err := http.Get(s.URL() + path)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
		require.True(t, json.Valid(b))
	}
	require.Len(t, s.Requests(), 2, "without the list of models")
	require.Equal(t, []string{"OPENAI_BASE_URL=" + s.URL(), "OPENAI_API_KEY=sk-scripted"}, s.Env())
	require.True(t, strings.HasSuffix(s.URL(), "/v1"))
}

func TestServerTellsConversationsApart(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("main")).On("hi", pygenttest.Text("routed")).RepeatLast()
	for range 2 {
		_, _, text, err := answer(t, s, plainBody)
		require.NoError(t, err)
		require.Equal(t, "routed", decode(t, text).Choices[0].Message.Content)
	}
}

func TestServerKeepsTheLastRequests(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("x")).RepeatLast().KeepRequests(2)
	for range 5 {
		_, _, _, err := answer(t, s, plainBody)
		require.NoError(t, err)
	}
	require.Len(t, s.Requests(), 2)
	require.NoError(t, s.WaitRequests(t.Context(), 5))
}

func TestServerRefusesWhatIsTooLong(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("x")).RepeatLast().Window(10)
	status, _, text, err := answer(t, s, plainBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "context_length_exceeded", decode(t, text).Error.Code)
	status, _, _, err = answer(t, s.Window(0), plainBody)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}
