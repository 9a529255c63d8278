package pygent_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func withCall(id string, after ...pygent.Message) *pygent.ChatRequest {
	return ask(append([]pygent.Message{
		pygent.UserMessage("Go."),
		pygent.AssistantMessage("", pygent.ToolCall{ID: id, Name: "bash", Arguments: "{}"}),
		pygent.ToolMessage(id, "ok"),
	}, after...)...)
}

func roles(r pygenttest.Request) []pygent.Role {
	var out []pygent.Role
	for _, m := range r.Chat.Messages {
		out = append(out, m.Role)
	}
	return out
}

func TestRefusedOrderIsBridged(t *testing.T) {
	t.Parallel()
	const user, answer, tool = pygent.RoleUser, pygent.RoleAssistant, pygent.RoleTool
	cases := []struct {
		name  string
		reply pygenttest.Reply
		want  []pygent.Role
	}{
		{"Mistral", pygenttest.Raw(400, "application/json", `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}`),
			[]pygent.Role{user, answer, tool, answer, user, user}},
		{"vLLM", pygenttest.Raw(400, "application/json", `{"error":{"message":"Unexpected role 'user' after role 'tool' 1","type":"BadRequestError","param":null,"code":400}}`),
			[]pygent.Role{user, answer, tool, answer, user, user}},
		{"a template", pygenttest.Status(500, "", "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."),
			[]pygent.Role{user, answer, tool, answer, user, answer, user}},
	}
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		for _, c := range cases {
			t.Run(string(api)+" "+c.name, func(t *testing.T) {
				s := pygenttest.NewServer(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
				m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(api))
				req := withCall("c1", pygent.UserMessage("And?"), pygent.UserMessage("Well?"))
				notices, err := noticed(t, m, req)
				require.NoError(t, err)
				require.Equal(t, []string{"put an assistant message before the user's: the server takes no other order"}, notices)
				_, err = m.Chat(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, c.want, roles(s.Requests()[1]))
				require.NotEmpty(t, s.Requests()[1].Chat.Messages[3].Content)
				require.Equal(t, c.want, roles(s.Requests()[2]), "it is remembered")
				require.Len(t, req.Messages, 5, "the conversation stays as it is")
			})
		}
	}
}

func TestRefusedIDsAreShortened(t *testing.T) {
	t.Parallel()
	for _, reply := range []pygenttest.Reply{
		pygenttest.Raw(400, "application/json", `{"object":"error","message":"Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_function_call","param":null,"code":"3280"}`),
		pygenttest.Status(500, "", "Tool call IDs should be alphanumeric strings with length 9!"),
	} {
		m, s := serve(t, reply, pygenttest.Text("a"), pygenttest.Text("b"))
		req := withCall("call_1", pygent.AssistantMessage("", pygent.ToolCall{ID: "abcDEF123", Name: "bash", Arguments: "{}"}), pygent.ToolMessage("abcDEF123", "ok"))
		notices, err := noticed(t, m, req)
		require.NoError(t, err)
		require.Len(t, notices, 1)
		_, err = m.Chat(t.Context(), req)
		require.NoError(t, err)
		for _, r := range s.Requests()[1:] {
			sent := r.Chat.Messages
			require.Regexp(t, `^[a-zA-Z0-9]{9}$`, sent[1].ToolCalls[0].ID)
			require.Equal(t, sent[1].ToolCalls[0].ID, sent[2].ToolCallID)
			require.Equal(t, "abcDEF123", sent[3].ToolCalls[0].ID, "what is legal stays")
			require.Equal(t, s.Requests()[1].Chat.Messages[1].ToolCalls, sent[1].ToolCalls, "the same each time")
		}
		require.Equal(t, "call_1", req.Messages[1].ToolCalls[0].ID)
	}
}

// A conversation may begin with another provider and continue with OpenAI.
// There an id has at most 40 characters in one API, and 64 in the other.
func TestLongIDsAreShortened(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("x", 70)
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"))
		_, err := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(api)).Chat(t.Context(), withCall(id))
		require.NoError(t, err, api)
		require.Len(t, s.Requests(), 2)
		sent := s.Requests()[1].Chat.Messages
		require.Len(t, sent[1].ToolCalls[0].ID, 9)
		require.Equal(t, sent[1].ToolCalls[0].ID, sent[2].ToolCallID)
	}
}

// The loop asks for a summary without tools when a run reaches a limit.
func TestWhatIsAboutToolsGoesWithTools(t *testing.T) {
	t.Parallel()
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b"))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(api), pygent.OpenAIParallelToolCalls(true),
			pygent.OpenAIExtraBody(map[string]any{"tool_choice": "required"}))
		for _, req := range []*pygent.ChatRequest{withTools(ask(pygent.UserMessage("Go."))), ask(pygent.UserMessage("Go."))} {
			_, err := m.Chat(t.Context(), req)
			require.NoError(t, err, api)
		}
		require.Contains(t, s.Requests()[0].Fields, "tool_choice")
		require.NotContains(t, s.Requests()[1].Fields, "tool_choice")
		require.NotContains(t, s.Requests()[1].Fields, "parallel_tool_calls")
	}
}

// If a caller changes an answer, the changed answer is kept and sent.
func TestAnswersMayBeChanged(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Call("bash", map[string]any{"cmd": "echo a"}).WithReasoning("Hm."))
	resp, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go.")))
	require.NoError(t, err)
	resp.Message.ToolCalls[0].Arguments = `{"cmd":"echo b"}`
	resp.Message.Extra["reasoning_content"] = json.RawMessage(`"Oh."`)
	for _, msg := range []pygent.Message{pygent.NewHistory(resp.Message).Messages()[0], resp.Message} {
		encoded, err := json.Marshal(msg)
		require.NoError(t, err)
		require.JSONEq(t, `{"role":"assistant","content":null,"reasoning_content":"Oh.",
			"tool_calls":[{"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"cmd\":\"echo b\"}"}}]}`, string(encoded))
	}
}

func TestToolsWithoutArgumentsGetASchemaWhereOneIsWanted(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"detail":[{"type":"missing","loc":["body","tools",1,"function","parameters"],"msg":"Field required","input":{"name":"stop"}}]}`,
		`{"error":{"message":"'parameters' is a required property - 'tools.0.function'","type":"invalid_request_error","param":null,"code":null}}`,
		`{"error":{"message":"tools.1.custom.input_schema: Field required","type":"invalid_request_error"}}`,
	} {
		m, s := serve(t, pygenttest.Raw(400, "application/json", body), pygenttest.Text("a"), pygenttest.Text("b"))
		for range 2 {
			_, err := m.Chat(t.Context(), withTools(ask()))
			require.NoError(t, err)
		}
		require.Len(t, s.Requests(), 3)
		require.Contains(t, string(s.Requests()[0].Fields["tools"]), `{"name":"stop"}`)
		for _, r := range s.Requests()[1:] {
			require.Contains(t, string(r.Fields["tools"]), `{"name":"stop","parameters":{"type":"object","properties":{}}}`)
		}
	}
	m, s := serve(t, pygenttest.Status(400, "invalid_function_parameters", "Invalid schema for function 'bash': parameters missing 'items'."))
	_, err := m.Chat(t.Context(), withTools(ask()))
	require.Error(t, err)
	require.Len(t, s.Requests(), 1, "another schema is meant")
}

func TestWhatTheUserSetIsLeftOutOnlyWhenItIsNotTaken(t *testing.T) {
	t.Parallel()
	for message, dropped := range map[string]bool{
		"Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.": true,
		"property 'temperature' is unsupported":                                            true,
		"Unknown parameter: 'temperature'.":                                                true,
		"Invalid value for temperature: must be between 0 and 2":                           false,
		"temperature is too high":                                                          false,
		"Unsupported value: 'temperature' does not support 9. Supported values are: 0, 1.": false,
		"Function tools with temperature are not supported in /v1/chat/completions; use the Responses API, at /v1/responses, please": false,
	} {
		s := pygenttest.NewServer(t, pygenttest.Status(400, "", message), pygenttest.Text("a"))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(pygent.OpenAIChat), pygent.OpenAIExtraBody(map[string]any{"temperature": 0.2}))
		_, err := m.Chat(t.Context(), ask())
		require.Equal(t, dropped, err == nil, "%s: %v", message, err)
	}
}

func TestLimitOfTokensReachesEveryServer(t *testing.T) {
	t.Parallel()
	for base, field := range map[string]string{
		"http://localhost:11434/v1":    "max_tokens", // Ollama ignores max_completion_tokens
		"https://openrouter.ai/api/v1": "max_tokens",
		"https://notopenai.com/v1":     "max_tokens",
		"":                             "max_completion_tokens",
		"https://eu.api.openai.com/v1": "max_completion_tokens",
		"https://x.openai.azure.com/openai/deployments/d?api-version=1": "max_completion_tokens",
	} {
		var sent map[string]json.RawMessage
		client := &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			return nil, json.NewDecoder(r.Body).Decode(&sent)
		})}
		m := newModel(t, pygent.OpenAIBaseURL(base), pygent.OpenAIHTTPClient(client), pygent.OpenAIMaxTokens(9))
		_, err := m.Chat(t.Context(), ask())
		require.Error(t, err)
		require.Equal(t, "9", string(sent[field]), base)
		require.NotContains(t, sent, map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[field])
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOneCredentialGoesToAServer(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return "sk-of-openai-itself", name == "OPENAI_API_KEY" }
	cases := []struct {
		name string
		opts []pygent.OpenAIOption
		want map[string]string
	}{
		{"api-key", []pygent.OpenAIOption{pygent.OpenAIHeader("api-key", "azure-secret")}, map[string]string{"Api-Key": "azure-secret"}},
		{"api-key beside a key", []pygent.OpenAIOption{pygent.OpenAIHeader("api-key", "azure-secret"), pygent.OpenAIKey("sk-of-openai-itself")}, map[string]string{"Api-Key": "azure-secret"}},
		{"x-api-key beside a key", []pygent.OpenAIOption{pygent.OpenAIHeader("X-API-Key", "their-secret"), pygent.OpenAIKey("sk-of-openai-itself")}, map[string]string{"X-Api-Key": "their-secret"}},
		{"a token of one's own", []pygent.OpenAIOption{pygent.OpenAIHeader("Authorization", "Bearer their-secret"), pygent.OpenAIKey("sk-of-openai-itself")}, map[string]string{"Authorization": "Bearer their-secret"}},
		{"a gateway's key", []pygent.OpenAIOption{pygent.OpenAIHeader("x-portkey-api-key", "their-secret")}, map[string]string{"Authorization": "Bearer sk-of-openai-itself", "X-Portkey-Api-Key": "their-secret"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pygenttest.NewServer(t, pygenttest.Status(401, "", "Wrong: azure-secret their-secret sk-of-openai-itself"))
			m, err := pygent.NewOpenAIModel(append(c.opts, pygent.OpenAIEnv(env), pygent.OpenAIBaseURL(s.URL()))...)
			require.NoError(t, err)
			_, err = m.Chat(t.Context(), ask())
			require.ErrorContains(t, err, "is the API key right")
			for _, value := range c.want {
				require.NotContains(t, err.Error(), value[max(0, len(value)-12):], "no error shows a credential")
			}
			got := map[string]string{}
			for _, name := range []string{"Authorization", "Api-Key", "X-Api-Key", "X-Portkey-Api-Key"} {
				if v := s.Requests()[0].Header.Get(name); v != "" {
					got[name] = v
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestEmptyFieldsAreNotSentBack(t *testing.T) {
	t.Parallel()
	body := `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Hi.","annotations":[],"refusal":null,"audio":null,"function_call":null,"note":"","meta":{},"reasoning_content":"","kept":[1],"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"},"extra":null,"extra_content":{"a":1}}]}}]}`
	m, s := serve(t, pygenttest.Raw(200, "application/json", body), pygenttest.Text("a"), pygenttest.Text("b"))
	resp, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"kept", "reasoning_content"}, keys(resp.Message.Extra), "a server that gives reasoning wants the field back")
	require.Equal(t, []string{"extra_content"}, keys(resp.Message.ToolCalls[0].Extra))

	// This message comes from a history that another program wrote.
	var loaded pygent.Message
	require.NoError(t, json.Unmarshal([]byte(`{"role":"assistant","content":"Hi.","annotations":[],"refusal":null,"audio":null,"function_call":null,"kept":1}`), &loaded))
	_, err = m.Chat(t.Context(), ask(pygent.UserMessage("Go."), loaded, pygent.UserMessage("On.")))
	require.NoError(t, err)
	require.Contains(t, string(s.Requests()[1].Body), `{"role":"assistant","content":"Hi.","kept":1}`)
}

func keys(fields map[string]json.RawMessage) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	return names
}

func TestRefusedFieldsOfCallsAreLeftOut(t *testing.T) {
	t.Parallel()
	m, s := serve(t,
		pygenttest.Status(400, "", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1.tool_calls.0' : property 'extra_content' is unsupported)]"),
		pygenttest.Text("a"))
	s.Knows("extra_content", "kept")
	req := withCall("c1")
	req.Messages[1].ToolCalls[0].Extra = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"a":1}`), "kept": json.RawMessage(`1`)}
	_, err := m.Chat(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, []string{"kept"}, keys(s.Requests()[1].Chat.Messages[1].ToolCalls[0].Extra))
}

func TestCallsOfOtherModelsGetEmptyReasoningWhereItIsDue(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
		"The `reasoning_content` in the thinking mode must be passed back to the API.",
	} {
		m, s := serve(t, pygenttest.Status(400, "", message), pygenttest.Text("a"), pygenttest.Text("b"))
		s.Knows("reasoning_content")
		thought := pygent.AssistantMessage("", pygent.ToolCall{ID: "c2", Name: "bash", Arguments: "{}"})
		thought.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"Hm."`)}
		req := withCall("c1", thought, pygent.ToolMessage("c2", "ok"))
		for range 2 {
			_, err := m.Chat(t.Context(), req)
			require.NoError(t, err)
		}
		require.Len(t, s.Requests(), 3)
		for _, r := range s.Requests()[1:] {
			require.Equal(t, `""`, string(r.Chat.Messages[1].Extra["reasoning_content"]))
			require.Equal(t, `"Hm."`, string(r.Chat.Messages[3].Extra["reasoning_content"]), "what was said stays")
		}
	}
}

func TestCallsOfOtherModelsAreSignedWhereItIsDue(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b")).Strict(pygenttest.Gemini)
	s.Knows("extra_content")
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()))
	signed := pygent.AssistantMessage("", pygent.ToolCall{ID: "c2", Name: "bash", Arguments: "{}"})
	signed.ToolCalls[0].Extra = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"x"}}`)}
	req := withTools(withCall("c1", signed, pygent.ToolMessage("c2", "ok")))
	for range 2 {
		_, err := m.Chat(t.Context(), req)
		require.NoError(t, err)
	}
	require.Len(t, s.Requests(), 3)
	for _, r := range s.Requests()[1:] {
		require.Contains(t, string(r.Chat.Messages[1].ToolCalls[0].Extra["extra_content"]), "skip_thought_signature_validator")
		require.Contains(t, string(r.Chat.Messages[3].ToolCalls[0].Extra["extra_content"]), `"x"`, "Gemini's own stays")
	}
}

func TestRefusedFieldsAreNotTakenForParameters(t *testing.T) {
	t.Parallel()
	body := `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",1,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted","input":"the temperature"}]},"type":"invalid_request_error","param":null,"code":null}`
	s := pygenttest.NewServer(t, pygenttest.Raw(422, "application/json", body), pygenttest.Text("a"))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIExtraBody(map[string]any{"temperature": 1}))
	answer := pygent.AssistantMessage("Hi.")
	answer.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"the temperature"`)}
	_, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), answer, pygent.UserMessage("On.")))
	require.NoError(t, err)
	require.Contains(t, s.Requests()[1].Fields, "temperature")
	require.Empty(t, s.Requests()[1].Chat.Messages[1].Extra)
}

func TestNoAnswerIsSentWithoutContent(t *testing.T) {
	t.Parallel()
	refused := pygent.AssistantMessage("")
	refused.Extra = map[string]json.RawMessage{"refusal": json.RawMessage(`"I cannot."`)}
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("").WithReasoning("Hm."), pygenttest.Text("b"))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(api))
		_, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), refused, pygent.UserMessage("On.")))
		require.NoError(t, err)
		require.Equal(t, "I cannot.", s.Requests()[0].Chat.Messages[1].Content)

		agent := newAgentOn(t, nowhere{}, m)
		_, err = agent.Step(t.Context(), "Go.")
		require.ErrorIs(t, err, pygent.ErrNoAnswer)
		_, err = agent.Step(t.Context(), "Go.")
		require.NoError(t, err)
		for _, sent := range s.Requests()[2].Chat.Messages {
			require.NotEmpty(t, sent.Content)
		}
	}
}

func TestWaitsInWordsAreHonoured(t *testing.T) {
	t.Parallel()
	const month = 31 * 24 * time.Hour
	cases := map[string]time.Duration{
		"Rate limit reached for gpt-4 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 1.2s. Visit https://x": 1200 * time.Millisecond,
		"Rate limit reached. Please try again in 6m0s.":        6 * time.Minute,
		"Please try again in 7m12.48s. Need more tokens?":      7*time.Minute + 12480*time.Millisecond,
		"Please try again in 820ms.":                           820 * time.Millisecond,
		"Please retry after 26 seconds.":                       26 * time.Second,
		"Please retry in 34.5s.":                               34500 * time.Millisecond,
		"You can try again in 1 hour and 2 minutes":            62 * time.Minute,
		"Quota. \"retryDelay\": \"34s\"":                       34 * time.Second,
		"upstream said {\"retry_after_seconds\": 4.5}":         4500 * time.Millisecond,
		"retry_after_ms=1500":                                  1500 * time.Millisecond,
		"Please try again in 1e300s":                           0,
		"Please try again in 99999999999999999999999999 days.": month,
		"Please try again in 3 models.":                        0,
		"Please try again later.":                              0,
		"Please wait for 10 minutes before you come back":      10 * time.Minute,
		"Too many requests: 5 m":                               0,
	}
	for message, want := range cases {
		m, _ := serve(t, pygenttest.Status(429, "", message))
		_, err := m.Chat(t.Context(), ask())
		require.Equal(t, want, apiError(t, err).RetryAfter, message)
	}
	m, _ := serve(t, pygenttest.Status(429, "", "Please try again in 6m0s.").WithHeader("Retry-After", "2"), pygenttest.Status(400, "", "Please try again in 6m0s."))
	_, err := m.Chat(t.Context(), ask())
	require.Equal(t, 2*time.Second, apiError(t, err).RetryAfter, "a header says it better")
	_, err = m.Chat(t.Context(), ask())
	require.Zero(t, apiError(t, err).RetryAfter)
}

func TestUpstreamErrorsAreRead(t *testing.T) {
	t.Parallel()
	wrapped := func(raw string, more string) pygenttest.Reply {
		text, err := json.Marshal(raw)
		require.NoError(t, err)
		return pygenttest.Raw(429, "application/json", `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":`+string(text)+`,"provider_name":"Google"`+more+`}}}`)
	}
	m, _ := serve(t,
		wrapped(`{"error":{"code":429,"message":"Resource exhausted.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, ""),
		wrapped(`{"error":{"message":"You exceeded your quota.","type":"insufficient_quota","code":"insufficient_quota"}}`, ""),
		wrapped(`busy, please try again in 3s`, ""),
		wrapped(``, `,"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"7"}`))
	_, err := m.Chat(t.Context(), ask())
	require.Equal(t, 34*time.Second, apiError(t, err).RetryAfter)
	require.ErrorContains(t, err, "Provider returned error: Google Resource exhausted.")
	_, err = m.Chat(t.Context(), ask())
	require.False(t, apiError(t, err).Retryable)
	require.Equal(t, "insufficient_quota", apiError(t, err).Code)
	_, err = m.Chat(t.Context(), ask())
	require.Equal(t, 3*time.Second, apiError(t, err).RetryAfter)
	_, err = m.Chat(t.Context(), ask())
	require.Equal(t, 7*time.Second, apiError(t, err).RetryAfter)

	s := pygenttest.NewServer(t, pygenttest.Raw(400, "application/json", `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"No.\",\"param\":\"top_k\",\"code\":\"unsupported_parameter\"}}"}}}`), pygenttest.Text("a"))
	s.Knows("top_k")
	m = newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIExtraBody(map[string]any{"top_k": 1}))
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err, "the cause is adapted to as if it had been said directly")
}

func TestEveryProviderIsSatisfiedInTheEnd(t *testing.T) {
	t.Parallel()
	for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
		t.Run("strict "+string(provider), func(t *testing.T) {
			s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b")).Strict(provider)
			m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIMaxTokens(100), pygent.OpenAIParallelToolCalls(true))
			req := withTools(withCall("call_1", pygent.UserMessage("And?")))
			req.Messages[1].Extra = map[string]json.RawMessage{
				"annotations": json.RawMessage(`[]`), "refusal": json.RawMessage(`null`), "reasoning_content": json.RawMessage(`"Hm."`),
			}
			req.Messages[1].ToolCalls[0].Extra = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"x"}}`)}
			notices, err := noticed(t, m, req)
			require.NoError(t, err)
			before := len(s.Requests())
			require.Len(t, notices, before-1, "each change is told, and none is made in vain")
			_, err = m.ChatStream(t.Context(), req, func(pygent.Delta) {})
			require.NoError(t, err)
			require.Len(t, s.Requests(), before+1, "all of it is remembered")
		})
	}
}
