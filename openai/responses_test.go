package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

const (
	noToolsInChat = "Function tools with reasoning_effort are not supported for gpt-x in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
	onlyResponses = "This model is only supported in v1/responses and not in v1/chat/completions."
)

// serveResponses returns a model that uses the Responses API of a server with
// the given replies.
func serveResponses(t *testing.T, replies ...pygenttest.Reply) (*openai.Model, *pygenttest.Server) {
	t.Helper()
	s := pygenttest.NewServer(t, replies...)
	return newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Responses)), s
}

// noticed streams a request and returns the notices that the model gave
// meanwhile.
func noticed(t *testing.T, m *openai.Model, req *pygent.ChatRequest) ([]string, error) {
	t.Helper()
	var notices []string
	_, err := m.ChatStream(t.Context(), req, func(d pygent.Delta) {
		if d.Notice != "" {
			notices = append(notices, d.Notice)
		}
	})
	return notices, err
}

func withTools(req *pygent.ChatRequest) *pygent.ChatRequest {
	req.Tools = []chat.ToolSpec{
		{Name: "bash", Description: "a <b>", Parameters: json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"}}}`)},
		{Name: "stop"},
	}
	return req
}

func TestResponsesRequestIsComplete(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Responses), openai.MaxTokens(70),
		openai.ParallelToolCalls(true),
		openai.ExtraBody(map[string]any{"reasoning_effort": "high", "verbosity": "low"}))
	_, err := m.ChatStream(t.Context(), withTools(ask(chat.SystemMessage("Be brief."), chat.UserMessage("Go."))), func(pygent.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "/v1/responses", s.Requests()[0].Path)
	require.Equal(t, `{"model":"gpt-4.1-mini","stream":true,"include":["reasoning.encrypted_content"],"max_output_tokens":70,"parallel_tool_calls":true,`+
		`"reasoning":{"effort":"high"},"store":false,"text":{"verbosity":"low"},"tools":[`+
		`{"type":"function","name":"bash","description":"a <b>","parameters":{"type":"object","properties":{"cmd":{"type":"string"}}},"strict":false},`+
		`{"type":"function","name":"stop","parameters":{"type":"object","properties":{}},"strict":false}],`+
		`"input":[{"type":"message","role":"system","content":"Be brief."},{"type":"message","role":"user","content":"Go."}]}`,
		string(s.Requests()[0].Body))
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.NotContains(t, s.Requests()[1].Fields, "parallel_tool_calls")
	require.NotContains(t, s.Requests()[1].Fields, "stream")
}

func TestResponsesAreRead(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 3, ReasoningTokens: 2}
	reply := pygenttest.TextAndCalls("I look at it.", pygenttest.Call("bash", map[string]any{"cmd": "ls"}), pygenttest.Call("stop", nil)).
		WithReasoning("Hm, what now?").WithUsage(usage)
	for _, q := range append([]pygenttest.Quirk{""}, pygenttest.QuirkOneChunk, pygenttest.QuirkUnknownFields, pygenttest.QuirkKeepAlive) {
		bothWays(t, func(t *testing.T, call chatFunc) {
			m, _ := serveResponses(t, reply.WithQuirks(q))
			resp, err := call(m, ask())
			require.NoError(t, err)
			require.Equal(t, chat.RoleAssistant, resp.Message.Role)
			require.Equal(t, "I look at it.", resp.Message.Content)
			require.Equal(t, []pygent.ToolCall{{ID: "call_1", Name: "bash", Arguments: `{"cmd":"ls"}`}, {ID: "call_2", Name: "stop", Arguments: "{}"}}, resp.Message.ToolCalls)
			require.Equal(t, chat.FinishToolCalls, resp.FinishReason)
			require.Equal(t, usage, resp.Usage)
			require.NotEmpty(t, resp.ID)
			require.NotEmpty(t, resp.Model)
		})
	}
	// The last event of a stream may lack the output, because earlier events
	// had it. A plain answer has no such earlier events.
	m, _ := serveResponses(t, reply.WithQuirks(pygenttest.QuirkNoChoices), reply.WithQuirks(pygenttest.QuirkNoChoices))
	var text, reasoning string
	_, err := m.ChatStream(t.Context(), ask(), func(d pygent.Delta) { text, reasoning = text+d.Text, reasoning+d.Reasoning })
	require.NoError(t, err)
	require.Equal(t, "I look at it.", text)
	require.Equal(t, "Hm, what now?", reasoning)
	_, err = m.Chat(t.Context(), ask())
	require.True(t, apiError(t, err).Retryable)
	for _, finish := range []chat.FinishReason{chat.FinishLength, chat.FinishFilter} {
		bothWays(t, func(t *testing.T, call chatFunc) {
			m, _ := serveResponses(t, pygenttest.Text("Half").WithFinish(finish))
			resp, err := call(m, ask())
			require.NoError(t, err)
			require.Equal(t, finish, resp.FinishReason)
		})
	}
}

func TestReasoningGoesBackOnlyToItsModel(t *testing.T) {
	t.Parallel()
	call := pygenttest.Call("bash", map[string]any{"cmd": "ls"}).WithReasoning("Hm.")
	m, s := serveResponses(t, call, pygenttest.Text("a"), pygenttest.Text("b"), pygenttest.Text("c"), pygenttest.Text("d"))
	resp, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)

	// The message must survive a round trip through a history file.
	b, err := json.Marshal(resp.Message)
	require.NoError(t, err)
	var answer pygent.Message
	require.NoError(t, json.Unmarshal(b, &answer))
	next := ask(chat.UserMessage("Go."), answer, chat.ToolMessage("call_1", "README"))

	_, err = m.Chat(t.Context(), next)
	require.NoError(t, err)
	var items []map[string]any
	require.NoError(t, json.Unmarshal(s.Requests()[1].Fields["input"], &items))
	require.Len(t, items, 4)
	require.Equal(t, "reasoning", items[1]["type"])
	require.NotEmpty(t, items[1]["encrypted_content"])
	require.Equal(t, map[string]any{"type": "function_call", "id": items[2]["id"], "call_id": "call_1", "name": "bash", "arguments": `{"cmd":"ls"}`}, items[2])
	require.NotEmpty(t, items[2]["id"])
	require.Equal(t, map[string]any{"type": "function_call_output", "call_id": "call_1", "output": "README"}, items[3])

	other := *next
	other.Model = "another"
	_, err = m.Chat(t.Context(), &other)
	require.NoError(t, err)
	quiet := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Responses), openai.SendReasoning(false))
	_, err = quiet.Chat(t.Context(), next)
	require.NoError(t, err)
	require.NotContains(t, s.Requests()[3].Fields, "include")
	_, err = newModel(t, openai.BaseURL(s.URL())).Chat(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, "/v1/chat/completions", s.Requests()[4].Path)
	for _, r := range s.Requests()[2:] {
		require.NotContains(t, string(r.Body), "encrypted_content\":")
		require.NotContains(t, string(r.Body), "openai_response")
		require.NotContains(t, string(r.Body), "rs_")
	}
	require.Contains(t, answer.Extra, "openai_response", "the history keeps it")
}

func TestModelsThatWantResponsesGetThem(t *testing.T) {
	t.Parallel()
	refusals := map[string]pygenttest.Reply{
		"tools beside reasoning": pygenttest.Raw(400, "application/json", `{"error":{"message":"`+noToolsInChat+`","type":"invalid_request_error","param":"reasoning_effort","code":null}}`),
		"not in chat":            pygenttest.Status(404, "", onlyResponses),
		"not a chat model":       pygenttest.Status(404, "", "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?"),
		"Azure":                  pygenttest.Status(400, "OperationNotSupported", "The chatCompletion operation does not work with the specified model, gpt-x-codex. Please choose different model and try again."),
		"Copilot":                pygenttest.Status(400, "unsupported_api_for_model", "no"),
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			s := pygenttest.NewServer(t, refusal, pygenttest.Text("a"), pygenttest.Text("b"), pygenttest.Text("c"))
			m := newModel(t, openai.BaseURL(s.URL()), openai.DefaultModel("gpt-x"), openai.ExtraBody(map[string]any{"reasoning_effort": "high"}))
			notices, err := noticed(t, m, withTools(ask()))
			require.NoError(t, err)
			require.Equal(t, []string{"switched to the Responses API: gpt-x asks for it"}, notices)
			notices, err = noticed(t, m, withTools(ask()))
			require.NoError(t, err)
			require.Empty(t, notices, "it is remembered")
			other := ask()
			other.Model = "gpt-4.1"
			_, err = m.Chat(t.Context(), other)
			require.NoError(t, err)
			var paths []string
			for _, r := range s.Requests() {
				paths = append(paths, strings.TrimPrefix(r.Path, "/v1/"))
			}
			require.Equal(t, []string{"chat/completions", "responses", "responses", "chat/completions"}, paths)
			require.JSONEq(t, `{"effort":"high"}`, string(s.Requests()[1].Fields["reasoning"]), "what the user set is kept")
		})
	}
}

// onlyChat serves nothing but the chat completions of s.
func onlyChat(t *testing.T, s *pygenttest.Server) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v1/chat/completions", s)
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	return front.URL + "/v1"
}

func TestServersWithoutResponsesSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	t.Run("chosen", func(t *testing.T) {
		url := onlyChat(t, pygenttest.NewServer(t))
		_, err := newModel(t, openai.BaseURL(url), openai.API(openai.Responses)).Chat(t.Context(), ask())
		require.ErrorContains(t, err, url+" does not serve the Responses API: use chat completions")
		require.NotContains(t, err.Error(), "serve a model called")
	})
	t.Run("asked for, with effort", func(t *testing.T) {
		s := pygenttest.NewServer(t, pygenttest.Status(400, "", noToolsInChat)).RepeatLast()
		url := onlyChat(t, s)
		m := newModel(t, openai.BaseURL(url), openai.ExtraBody(map[string]any{"reasoning_effort": "high"}))
		notices, err := noticed(t, m, withTools(ask()))
		require.ErrorContains(t, err, noToolsInChat)
		require.ErrorContains(t, err, "and "+url+" does not serve the Responses API")
		require.Len(t, notices, 2)
		require.Contains(t, notices[1], "went back to chat completions")
		notices, err = noticed(t, m, withTools(ask()))
		require.Error(t, err)
		require.Empty(t, notices)
		for _, r := range s.Requests() {
			require.Equal(t, `"high"`, string(r.Fields["reasoning_effort"]))
		}
	})
	t.Run("asked for, without effort", func(t *testing.T) {
		refusal := pygenttest.Status(400, "", noToolsInChat)
		s := pygenttest.NewServer(t, refusal, refusal, pygenttest.Text("a"))
		notices, err := noticed(t, newModel(t, openai.BaseURL(onlyChat(t, s))), withTools(ask()))
		require.NoError(t, err)
		require.Len(t, notices, 3)
		require.Equal(t, `"none"`, string(s.Requests()[2].Fields["reasoning_effort"]))
	})
	t.Run("a model that is not there", func(t *testing.T) {
		for _, refusal := range []pygenttest.Reply{
			pygenttest.Status(404, "", "The model `x` does not exist."), pygenttest.Status(404, "model_not_found", "`x` does not exist."),
		} {
			m, _ := serveResponses(t, refusal)
			_, err := m.Chat(t.Context(), ask())
			require.ErrorContains(t, err, "serve a model called")
			require.NotContains(t, err.Error(), "does not serve the Responses API")
		}
	})
}

func TestChatAloneIsNotLeft(t *testing.T) {
	t.Parallel()
	for _, reply := range []pygenttest.Reply{pygenttest.Status(404, "", onlyResponses), pygenttest.Status(400, "", noToolsInChat)} {
		s := pygenttest.NewServer(t, reply)
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Chat), openai.ExtraBody(map[string]any{"reasoning_effort": "high"}))
		_, err := m.Chat(t.Context(), withTools(ask()))
		require.ErrorContains(t, err, "choose the Responses API for this model")
		require.NotContains(t, err.Error(), "serve a model called")
		require.Len(t, s.Requests(), 1)
	}
	_, err := openai.New(openai.Env(nil), openai.Key(testKey), openai.API("completions"))
	require.ErrorContains(t, err, `API "completions": want auto, chat or responses`)
}

func TestParametersThatResponsesLackAreErrors(t *testing.T) {
	t.Parallel()
	seed := openai.ExtraBody(map[string]any{"seed": 1})
	_, err := openai.New(openai.Env(nil), openai.Key(testKey), openai.API(openai.Responses), seed)
	require.ErrorContains(t, err, "the Responses API has no parameter seed")
	s := pygenttest.NewServer(t, pygenttest.Status(404, "", onlyResponses))
	_, err = newModel(t, openai.BaseURL(s.URL()), seed).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "the Responses API has no parameter seed")
}

func TestResponsesEndWithTheirLastEvent(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","+
			"\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi.\"}]}]}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // keep the connection open
	}))
	defer s.Close()
	m := newModel(t, openai.BaseURL(s.URL+"/v1"), openai.API(openai.Responses))
	resp, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "Hi.", resp.Message.Content)
}

func TestThinkingInSilenceIsNoStall(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Minute // the default limit for the first byte
	for silence, ok := range map[time.Duration]bool{limit - time.Second: true, limit + time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			transport := pipeTransport{write: func(w *io.PipeWriter) {
				defer w.Close()
				fmt.Fprint(w, "data: {\"type\":\"response.created\",\"response\":{}}\n\n")
				time.Sleep(silence)
				fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"incomplete\"}}\n\n")
			}}
			m := newModel(t, openai.API(openai.Responses), openai.HTTPClient(&http.Client{Transport: transport}))
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.Equal(t, ok, err == nil, err)
			if !ok {
				require.ErrorContains(t, err, "no answer came within 5m0s")
			}
			time.Sleep(limit) // virtual time, in which the server's goroutine ends
		})
	}
}

func TestBrokenResponsesAreAPIErrors(t *testing.T) {
	t.Parallel()
	text := pygenttest.Text("Half of the answer.")
	cases := []struct {
		name  string
		reply pygenttest.Reply
		want  pygent.APIError
	}{
		{"cut", text.CutAfter(1), pygent.APIError{Retryable: true}},
		{"cut before the end", text.CutAfter(100), pygent.APIError{Retryable: true}},
		{"disconnect", pygenttest.Disconnect(), pygent.APIError{Retryable: true}},
		{"HTML", pygenttest.HTML(200), pygent.APIError{Status: 200}},
		{"empty", pygenttest.Raw(200, "application/json", ""), pygent.APIError{Status: 200, Retryable: true}},
		{"chat instead", pygenttest.Raw(200, "application/json", `{"object":"chat.completion","choices":[]}`), pygent.APIError{Status: 200, Retryable: true}},
		{"failed", text.FailAfter(1, "server_error", "Oops"), pygent.APIError{Retryable: true}},
		{"error event", text.FailAfter(1, "server_error", "Oops").WithQuirks(pygenttest.QuirkErrorEvent), pygent.APIError{Retryable: true}},
		{"policy", text.FailAfter(1, "bio_policy", "Oops"), pygent.APIError{}},
		{"image", text.FailAfter(1, "image_too_large", "Oops"), pygent.APIError{}},
		{"nested error", text.FailAfter(1, "invalid_prompt", "Oops").WithQuirks(pygenttest.QuirkNestedError), pygent.APIError{}},
		{"rate limit", text.FailAfter(1, "rate_limit_exceeded", "Rate limit reached. Please try again in 1.2s."), pygent.APIError{Retryable: true, RetryAfter: 1200 * time.Millisecond}},
		{"quota", text.FailAfter(1, "insufficient_quota", "Oops"), pygent.APIError{}},
		{"too long", pygenttest.ContextTooLarge(5), pygent.APIError{Status: 400, ContextTooLarge: true}},
		{"rate limited", pygenttest.RateLimited(2 * time.Second), pygent.APIError{Status: 429, Retryable: true, RetryAfter: 2 * time.Second}},
	}
	bothWays(t, func(t *testing.T, call chatFunc) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				m, s := serveResponses(t, c.reply)
				_, err := call(m, ask())
				got := apiError(t, err)
				require.Equal(t, c.want, pygent.APIError{Status: got.Status, Retryable: got.Retryable, ContextTooLarge: got.ContextTooLarge, RetryAfter: got.RetryAfter}, err)
				require.Len(t, s.Requests(), 1, "the agent repeats, not the model")
			})
		}
	})
	m, _ := serveResponses(t, text.WithQuirks(pygenttest.QuirkNoFinishReason))
	_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.True(t, apiError(t, err).Retryable)
}

func TestResponsesTakeImages(t *testing.T) {
	t.Parallel()
	image := pygent.Part{ImageURL: "data:image/png;base64,AAAA"}
	look := ask(pygent.Message{Role: chat.RoleUser, Parts: []pygent.Part{{Text: "Look:"}, image}},
		chat.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: "read_image", Arguments: "{}"}),
		pygent.Message{Role: chat.RoleTool, ToolCallID: "c1", Parts: []pygent.Part{image}})
	m, s := serveResponses(t, pygenttest.Text("a"), pygenttest.Status(400, "", "Invalid content type. input_image is only supported by certain models."), pygenttest.Text("b"))
	_, err := m.Chat(t.Context(), look)
	require.NoError(t, err)
	sent := string(s.Requests()[0].Body)
	require.Contains(t, sent, `{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"}]},{"type":"function_call"`)
	require.Contains(t, sent, `"output":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"auto"}]`)
	notices, err := noticed(t, m, look)
	require.NoError(t, err)
	require.Equal(t, []string{"left images out: the model does not accept them"}, notices)
	require.NotContains(t, string(s.Requests()[2].Body), "base64")
}

func TestRefusedReasoningIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"Encrypted content is not supported with this model.",
		"The encrypted content gAAA... could not be verified.",
		"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
		"Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
	} {
		for _, status := range []int{400, 404} {
			m, s := serveResponses(t, pygenttest.Text("Hi.").WithReasoning("Hm."), pygenttest.Status(status, "", message), pygenttest.Text("a"), pygenttest.Text("b"))
			resp, err := m.Chat(t.Context(), ask())
			require.NoError(t, err)
			again := ask(chat.UserMessage("Go."), resp.Message, chat.UserMessage("On."))
			notices, err := noticed(t, m, again)
			require.NoError(t, err)
			require.Equal(t, []string{"left earlier reasoning out: the server does not accept it"}, notices)
			_, err = m.Chat(t.Context(), again)
			require.NoError(t, err)
			require.Contains(t, string(s.Requests()[1].Body), "encrypted_content\":")
			for _, r := range s.Requests()[2:] {
				require.NotContains(t, string(r.Body), "encrypted_content")
				require.NotContains(t, string(r.Body), "rs_")
			}
		}
	}
}

func TestRefusedParametersOfResponses(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t,
		pygenttest.Raw(400, "application/json", `{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","param":"reasoning.effort","code":"unsupported_parameter"}}`),
		pygenttest.Text("a"))
	m := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Responses), openai.ExtraBody(map[string]any{"reasoning_effort": "high"}))
	notices, err := noticed(t, m, ask())
	require.NoError(t, err)
	require.Equal(t, []string{"dropped parameter reasoning: the server does not accept it"}, notices)
	require.NotContains(t, s.Requests()[1].Fields, "reasoning")
}

// If store is not set to false, the server keeps the conversation.
func TestStoreIsNotLeftOutForAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	m, s := serveResponses(t, pygenttest.Status(400, "", "The policy of this organisation wants store to be true."), pygenttest.Text("a"))
	_, err := m.Chat(t.Context(), ask())
	require.ErrorContains(t, err, "wants store to be true")
	require.Len(t, s.Requests(), 1)
}

func TestAgentWorksThroughTheResponsesAPI(t *testing.T) {
	t.Parallel()
	look := pygent.NewTool("look", "Looks.", func(_ context.Context, _ pygent.Runtime, in struct {
		At string `json:"at"`
	}) (string, error) {
		return "It is " + in.At, nil
	})
	s := pygenttest.NewServer(t, pygenttest.Status(400, "", noToolsInChat),
		pygenttest.Calls(pygenttest.Call("look", map[string]any{"at": "a"}), pygenttest.Call("look", map[string]any{"at": "b"})).WithReasoning("First."),
		pygenttest.TextAndCalls("One more.", pygenttest.Call("look", map[string]any{"at": "c"})).WithReasoning("Second."),
		pygenttest.Call("stop", map[string]any{"summary": "Seen."}))
	var notices []string
	agent := newAgentOn(t, nowhere{}, newModel(t, openai.BaseURL(s.URL())), pygent.WithTools(look), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventNotice {
			notices = append(notices, e.Text)
		}
	}))
	result, err := agent.RunUntilStop(t.Context(), "Look around.")
	require.NoError(t, err)
	require.Equal(t, "Seen.", result.Summary)
	require.NotEmpty(t, notices)
	before := ""
	for i, r := range s.Requests() {
		require.NoError(t, r.Err)
		if i == 0 {
			continue
		}
		body := strings.TrimSuffix(string(r.Body), "]}")
		require.True(t, strings.HasPrefix(body, before), "a request begins as the one before it")
		require.Equal(t, i-1, strings.Count(body, `"type":"reasoning"`))
		before = body
	}
	require.Contains(t, before, "It is b")
}

func TestReasoningSurvivesAHistoryFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.json")
	s := pygenttest.NewServer(t, pygenttest.Text("Hello.").WithReasoning("Hm."), pygenttest.Text("Again."))
	for range 2 {
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Responses))
		agent := newAgentOn(t, nowhere{}, m, pygent.WithHistoryFile(file))
		_, err := agent.Step(t.Context(), "Go.")
		require.NoError(t, err)
		require.NoError(t, agent.Close())
	}
	require.NotContains(t, string(s.Requests()[0].Fields["input"]), `"type":"reasoning"`)
	require.Contains(t, string(s.Requests()[1].Fields["input"]), `{"encrypted_content":"`)
	require.NoError(t, s.Requests()[1].Err)
}
