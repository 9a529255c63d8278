package openai_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

const testKey = testkit.TestKey

// serve returns a model that uses a server with the given replies.
func serve(t *testing.T, replies ...pygenttest.Reply) (*openai.Model, *pygenttest.Server) {
	t.Helper()
	s := pygenttest.NewServer(t, replies...)
	return newModel(t, openai.BaseURL(s.URL())), s
}

func ask(messages ...pygent.Message) *pygent.ChatRequest {
	if len(messages) == 0 {
		messages = []pygent.Message{chat.UserMessage("Go.")}
	}
	return &pygent.ChatRequest{Messages: messages}
}

// bothWays runs a test twice, with a plain call and with a streamed one.
func bothWays(t *testing.T, test func(t *testing.T, call func(*openai.Model, *pygent.ChatRequest) (*pygent.ChatResponse, error))) {
	t.Run("plain", func(t *testing.T) {
		test(t, func(m *openai.Model, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return m.Chat(t.Context(), req)
		})
	})
	t.Run("stream", func(t *testing.T) {
		test(t, func(m *openai.Model, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return m.ChatStream(t.Context(), req, func(pygent.Delta) {})
		})
	})
}

type chatFunc = func(*openai.Model, *pygent.ChatRequest) (*pygent.ChatResponse, error)

func apiError(t *testing.T, err error) *pygent.APIError {
	t.Helper()
	var e *pygent.APIError
	require.ErrorAs(t, err, &e)
	return e
}

func TestOpenAIModelWithoutKeyAndURLSaysHowToSetThem(t *testing.T) {
	t.Parallel()
	_, err := openai.New(openai.Env(nil))
	require.ErrorIs(t, err, pygent.ErrNoModel)
	for _, way := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "localhost:11434"} {
		require.ErrorContains(t, err, way)
	}
	require.NotContains(t, err.Error(), "\n", "it is one sentence")
}

func TestOpenAIModelTakesWhatIsNotGivenFromItsEnvironment(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t).Add(pygenttest.Text("a"), pygenttest.Text("b"))
	env := map[string]string{"OPENAI_API_KEY": testKey + "\n", "OPENAI_BASE_URL": s.URL(), "PYGENT_MODEL": "m"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	m, err := openai.New(openai.Env(lookup))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, "Bearer "+testKey, s.Requests()[0].Header.Get("Authorization"))
	require.Equal(t, "m", s.Requests()[0].Chat.Model)

	m, err = openai.New(openai.Env(lookup), openai.Key("other"), openai.DefaultModel("n"))
	require.NoError(t, err)
	req := ask()
	req.Model = "o"
	_, err = m.Chat(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "Bearer other", s.Requests()[1].Header.Get("Authorization"))
	require.Equal(t, "o", s.Requests()[1].Chat.Model)
	require.Equal(t, "n", m.DefaultModel())

	env["PYGENT_OPENAI_API"] = "completions"
	_, err = openai.New(openai.Env(lookup))
	require.ErrorContains(t, err, "PYGENT_OPENAI_API", "every setting of a model counts")
	delete(env, "PYGENT_OPENAI_API")
	_, err = openai.New(openai.Env(lookup), openai.Key(""), openai.BaseURL(""))
	require.NoError(t, err, "what is empty changes nothing")
	require.Equal(t, "gpt-4.1-mini", newModel(t).DefaultModel())
}

func TestOpenAIModelIgnoresWhatTheSDKReadsItself(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "leaked")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leaked: leaked")
	s := pygenttest.NewServer(t, pygenttest.Text("a"))
	m, err := openai.New(openai.Env(nil), openai.BaseURL(s.URL()))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(s.Requests()[0].Header), "leaked")
	require.Empty(t, s.Requests()[0].Header.Get("Authorization"))
}

func TestOpenAIModelServesAzure(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Text("a"))
	base := strings.TrimSuffix(s.URL(), "/v1") + "/openai/deployments/d?api-version=2024-10-21"
	lookup := func(name string) (string, bool) { return "not-for-Azure", name == "OPENAI_API_KEY" }
	m, err := openai.New(openai.Env(lookup), openai.BaseURL(base), openai.Header("api-key", testKey))
	require.NoError(t, err)
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	r := s.Requests()[0]
	require.Equal(t, "/openai/deployments/d/chat/completions", r.Path)
	require.Equal(t, "2024-10-21", r.Query.Get("api-version"))
	require.Equal(t, testKey, r.Header.Get("api-key"))
	require.Empty(t, r.Header.Get("Authorization"))
}

func TestAModelWithoutASystemRoleIsToldByTheUser(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Call("job_list", nil), stop).Strict(pygenttest.Gemma)
	m, err := openai.New(openai.Env(nil), openai.BaseURL(s.URL()))
	require.NoError(t, err)
	agent := newAgentOn(t, nowhere{}, m)
	notices, result := noticesOf(t, agent)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, []string{"put the system message into the user's first one: the model has no system role"}, notices)
	requests := s.Requests()
	require.Len(t, requests, 3, "it is refused once")
	for _, r := range requests[1:] {
		require.NoError(t, r.Err)
		first := r.Chat.Messages[0]
		require.Equal(t, chat.RoleUser, first.Role)
		require.Equal(t, agent.History().Messages()[0].Text()+"\n\ngo", first.Text())
	}
	require.Equal(t, chat.RoleSystem, agent.History().Messages()[0].Role, "on the wire only")
}

func TestOptionsReadWhatPeoplePaste(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"\r", "\r\n", "\ufeff", "\u200b", " "} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), stop)
		m, err := openai.New(openai.Env(nil), openai.Key(mark+"Bearer "+testKey+mark), openai.BaseURL(s.URL()+"/chat/completions"+mark),
			openai.DefaultModel("m"+mark), openai.Header("X-Y", mark+"z"+mark))
		require.NoError(t, err)
		_, err = m.Chat(t.Context(), ask())
		require.NoError(t, err)
		r := s.Requests()[0]
		require.Equal(t, "/v1/chat/completions", r.Path)
		require.Equal(t, "Bearer "+testKey, r.Header.Get("Authorization"))
		require.Equal(t, "z", r.Header.Get("X-Y"))
		require.Contains(t, string(r.Body), `"model":"m"`)
		agent := newAgentOn(t, nowhere{}, m, pygent.WithModelName("n"+mark))
		require.NoError(t, agent.SetModel(nil, mark+"o"+mark))
		require.NoError(t, agent.SetModel(nil, "n"+mark))
		_, err = agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Contains(t, string(s.Requests()[1].Body), `"model":"n"`)
	}
}

func TestNewOpenAIModelRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	cases := []struct {
		opt  openai.Option
		want string
	}{
		{openai.BaseURL("localhost:8080"), "want something like"},
		{openai.BaseURL("http://[bad"), "base URL"},
		{openai.BaseURL("http://user:hunter2@h/v1"), "credentials belong"},
		{openai.Key("a\nhunter2"), "the API key: there is a line end (U+000A) as its character 2"},
		{openai.BaseURL("http://h/\u200bv1"), "the base URL: there is a zero-width space (U+200B) as its character 10"},
		{openai.DefaultModel("a\rb"), "the name of the model: there is a carriage return (U+000D)"},
		{openai.MaxTokens(-2), "NoLimit"},
		{openai.Header("X Y", "z"), "cannot be sent"},
		{openai.Header("X", "hunter2\nY: z"), `the value of the header "X": there is a line end`},
		{openai.ExtraBody(map[string]any{"messages": 1}), "messages"},
		{openai.ExtraBody(map[string]any{"f": func() {}}), "field f"},
		{openai.CAFile("/nowhere.pem"), "CA file"},
		{openai.CAFile(empty), "no PEM certificate"},
	}
	for _, c := range cases {
		_, err := openai.New(openai.Env(nil), openai.Key(testKey), c.opt)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := openai.New(openai.Env(nil), openai.Key(testKey), openai.CAFile(empty), openai.HTTPClient(http.DefaultClient))
	require.ErrorContains(t, err, "cannot be combined")
}

func TestOpenAIModelNeverShowsItsKey(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Status(401, "invalid_api_key", "Incorrect API key provided: "+testKey))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "model", m)
	_, err := m.Chat(t.Context(), ask())
	shown := fmt.Sprintf("%v %+v %#v %s %s %v", m, m, m, m, log.String(), err)
	require.NotContains(t, shown, testKey)
	require.Contains(t, shown, "gpt-4.1-mini")
	require.ErrorContains(t, err, "[key]")
	require.ErrorContains(t, err, "Check OPENAI_API_KEY for")
}

func TestOpenAIModelSendsItsOptions(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b")).Knows("n_predict", "provider")
	m := newModel(t, openai.BaseURL(s.URL()+"/"),
		openai.Header("X-Title", "pygent"),
		openai.MaxTokens(7), openai.MaxTokensField("n_predict"),
		openai.ParallelToolCalls(false),
		openai.ExtraBody(map[string]any{"temperature": 0.5, "provider": map[string]any{"only": []string{"x"}}}))
	req := ask()
	req.Tools = []chat.ToolSpec{{Name: "bash", Description: "a <b>", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}, {Name: "stop"}}
	_, err := m.ChatStream(t.Context(), req, func(pygent.Delta) {})
	require.NoError(t, err)
	got := s.Requests()[0]
	require.Equal(t, "pygent", got.Header.Get("X-Title"))
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "application/json", got.Header.Get("Accept"))
	require.Equal(t, "pygent", got.Header.Get("User-Agent"))
	require.Equal(t, `{"model":"gpt-4.1-mini","stream":true,"n_predict":7,"parallel_tool_calls":false,"provider":{"only":["x"]},`+
		`"stream_options":{"include_usage":true},"temperature":0.5,"tools":[`+
		`{"type":"function","function":{"name":"bash","description":"a <b>","parameters":{"type":"object","properties":{}}}},`+
		`{"type":"function","function":{"name":"stop"}}],`+
		`"messages":[{"role":"user","content":"Go."}]}`, string(got.Body))

	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err)
	require.Equal(t, `{"model":"gpt-4.1-mini","n_predict":7,"provider":{"only":["x"]},"temperature":0.5,`+
		`"messages":[{"role":"user","content":"Go."}]}`, string(s.Requests()[1].Body))
}

// openai-go adds headers with the system, the architecture and the version of Go.
func TestRequestsTellNothingOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		s := pygenttest.NewServer(t, pygenttest.Status(500, "", "again"), pygenttest.Text("a"), pygenttest.Text("b"))
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(api))
		agent := newAgentOn(t, nowhere{}, m, pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond}))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		_, err = m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Len(t, s.Requests(), 3)
		for _, r := range s.Requests() {
			names := slices.Sorted(maps.Keys(r.Header))
			require.Equal(t, []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "User-Agent"}, names)
		}
	}
}

func TestOpenAIModelTrustsTheCAFile(t *testing.T) {
	t.Parallel()
	inner := pygenttest.NewServer(t, pygenttest.Text("a"))
	s := httptest.NewUnstartedServer(inner)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	_, err := newModel(t, openai.BaseURL(s.URL+"/v1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "CA file")
	require.False(t, apiError(t, err).Retryable)

	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, cert, 0o600))
	_, err = newModel(t, openai.BaseURL(s.URL+"/v1"), openai.CAFile(file)).Chat(t.Context(), ask())
	require.NoError(t, err)
}

func TestOpenAIModelReadsAnAnswer(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 3, ReasoningTokens: 2}
	bothWays(t, func(t *testing.T, call chatFunc) {
		m, _ := serve(t, pygenttest.TextAndCalls("Hello", pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
			WithReasoning("Hm.").WithUsage(usage))
		resp, err := call(m, ask())
		require.NoError(t, err)
		require.Equal(t, "Hello", resp.Message.Content)
		require.Equal(t, chat.RoleAssistant, resp.Message.Role)
		require.Equal(t, []pygent.ToolCall{{ID: "call_1", Name: "bash", Arguments: `{"cmd":"ls"}`}}, resp.Message.ToolCalls)
		require.Equal(t, `"Hm."`, string(resp.Message.Extra["reasoning_content"]))
		require.Equal(t, chat.FinishToolCalls, resp.FinishReason)
		require.Equal(t, usage, resp.Usage)
		require.NotEmpty(t, resp.ID)
	})
}

func TestChatStreamEmitsTheAnswer(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	reply := pygenttest.TextAndCalls("Some text first.",
		pygenttest.Call("bash", map[string]any{"cmd": "a rather long command"}),
		pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
		WithCallIDs("a", "b").
		WithUsage(pygent.Usage{PromptTokens: 10, CompletionTokens: 100})
	bothWays(t, func(t *testing.T, call chatFunc) {
		m, _ := serve(t, reply)
		want, err := call(m, ask())
		require.NoError(t, err)
		for _, q := range pygenttest.WireQuirks() {
			t.Run(string(q), func(t *testing.T) {
				m, _ := serve(t, reply.WithQuirks(q))
				got, err := call(m, ask())
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
	t.Parallel()
	bothWays(t, func(t *testing.T, call chatFunc) {
		for _, q := range []pygenttest.Quirk{pygenttest.QuirkNoCallIDs, pygenttest.QuirkDuplicateCallIDs} {
			m, s := serve(t, pygenttest.Calls(pygenttest.Call("bash", nil), pygenttest.Call("bash", nil)).WithQuirks(q), pygenttest.Text("Done."))
			resp, err := call(m, ask())
			require.NoError(t, err)
			require.Len(t, resp.Message.ToolCalls, 2)
			a, b := resp.Message.ToolCalls[0].ID, resp.Message.ToolCalls[1].ID
			require.NotEqual(t, a, b)
			_, err = call(m, ask(chat.UserMessage("Go."), resp.Message, chat.ToolMessage(a, "x"), chat.ToolMessage(b, "y")))
			require.NoError(t, err)
			require.NoError(t, s.Requests()[1].Err)
		}
	})
}

func TestCallIDsDoNotComeTwiceInAConversation(t *testing.T) {
	t.Parallel()
	call := pygenttest.Call("bash", nil).WithCallIDs("call_0")
	m, _ := serve(t, call, call)
	first, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	second, err := m.Chat(t.Context(), ask(chat.UserMessage("Go."), first.Message, chat.ToolMessage("call_0", "x")))
	require.NoError(t, err)
	require.NotEqual(t, "call_0", second.Message.ToolCalls[0].ID)
}

func TestUnknownFieldsGoBackToTheServer(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, call chatFunc) {
		reply := pygenttest.Text("Hi.").WithQuirks(pygenttest.QuirkUnknownFields)
		s := pygenttest.NewServer(t, reply, pygenttest.Text("b"), pygenttest.Text("c"))
		m := newModel(t, openai.BaseURL(s.URL()))
		resp, err := call(m, ask())
		require.NoError(t, err)
		again := ask(chat.UserMessage("Go."), resp.Message, chat.UserMessage("On."))
		_, err = call(m, again)
		require.NoError(t, err)
		sent := s.Requests()[1].Chat.Messages[1]
		require.JSONEq(t, `"The user wants this done."`, string(sent.Extra["reasoning_content"]))
		require.JSONEq(t, `[{"type":"reasoning.text","text":"The user wants this done.","format":"unknown","index":0}]`, string(sent.Extra["reasoning_details"]))

		quiet := newModel(t, openai.BaseURL(s.URL()), openai.SendReasoning(false))
		_, err = call(quiet, again)
		require.NoError(t, err)
		require.Empty(t, s.Requests()[2].Chat.Messages[1].Extra)
		require.NotEmpty(t, resp.Message.Extra, "the history keeps it")
	})
}

func TestStreamsAreReadAsTheyCome(t *testing.T) {
	t.Parallel()
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
			bothWays(t, func(t *testing.T, call chatFunc) {
				m, _ := serve(t, pygenttest.Raw(200, "text/event-stream", body))
				resp, err := call(m, ask())
				require.NoError(t, err)
				require.Equal(t, "a", resp.Message.Content)
			})
		})
	}
}

func TestOpenAIModelServesManyAtOnce(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		return pygenttest.Text(req.Messages[0].Content)
	})).RepeatLast()
	m := newModel(t, openai.BaseURL(s.URL()))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := fmt.Sprint("number ", i)
			resp, err := m.ChatStream(t.Context(), ask(chat.UserMessage(want)), func(pygent.Delta) {})
			if err != nil || resp.Message.Content != want {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	wg.Wait()
}

func TestAStreamNeedsNoListener(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Text("a"))
	resp, err := m.ChatStream(t.Context(), ask(), nil)
	require.NoError(t, err)
	require.Equal(t, "a", resp.Message.Content)
}

func withCall(id string, after ...pygent.Message) *pygent.ChatRequest {
	return ask(append([]pygent.Message{
		chat.UserMessage("Go."),
		chat.AssistantMessage("", pygent.ToolCall{ID: id, Name: "bash", Arguments: "{}"}),
		chat.ToolMessage(id, "ok"),
	}, after...)...)
}

func roles(r pygenttest.Request) []chat.Role {
	var out []chat.Role
	for _, m := range r.Chat.Messages {
		out = append(out, m.Role)
	}
	return out
}

func TestRefusedOrderIsBridged(t *testing.T) {
	t.Parallel()
	const user, answer, tool = chat.RoleUser, chat.RoleAssistant, chat.RoleTool
	cases := []struct {
		name  string
		reply pygenttest.Reply
		want  []chat.Role
	}{
		{"Mistral", pygenttest.Raw(400, "application/json", `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}`),
			[]chat.Role{user, answer, tool, answer, user, user}},
		{"vLLM", pygenttest.Raw(400, "application/json", `{"error":{"message":"Unexpected role 'user' after role 'tool' 1","type":"BadRequestError","param":null,"code":400}}`),
			[]chat.Role{user, answer, tool, answer, user, user}},
		{"a template", pygenttest.Status(500, "", "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."),
			[]chat.Role{user, answer, tool, answer, user, answer, user}},
	}
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		for _, c := range cases {
			t.Run(string(api)+" "+c.name, func(t *testing.T) {
				s := pygenttest.NewServer(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
				m := newModel(t, openai.BaseURL(s.URL()), openai.API(api))
				req := withCall("c1", chat.UserMessage("And?"), chat.UserMessage("Well?"))
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
		req := withCall("call_1", chat.AssistantMessage("", pygent.ToolCall{ID: "abcDEF123", Name: "bash", Arguments: "{}"}), chat.ToolMessage("abcDEF123", "ok"))
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
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"))
		_, err := newModel(t, openai.BaseURL(s.URL()), openai.API(api)).Chat(t.Context(), withCall(id))
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
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b"))
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(api), openai.ParallelToolCalls(true),
			openai.ExtraBody(map[string]any{"tool_choice": "required"}))
		for _, req := range []*pygent.ChatRequest{withTools(ask(chat.UserMessage("Go."))), ask(chat.UserMessage("Go."))} {
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
	resp, err := m.Chat(t.Context(), ask(chat.UserMessage("Go.")))
	require.NoError(t, err)
	resp.Message.ToolCalls[0].Arguments = `{"cmd":"echo b"}`
	resp.Message.Extra["reasoning_content"] = json.RawMessage(`"Oh."`)
	for _, msg := range []pygent.Message{chat.NewHistory(resp.Message).Messages()[0], resp.Message} {
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
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(openai.Chat), openai.ExtraBody(map[string]any{"temperature": 0.2}))
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
		m := newModel(t, openai.BaseURL(base), openai.HTTPClient(client), openai.MaxTokens(9))
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
		opts []openai.Option
		want map[string]string
	}{
		{"api-key", []openai.Option{openai.Header("api-key", "azure-secret")}, map[string]string{"Api-Key": "azure-secret"}},
		{"api-key beside a key", []openai.Option{openai.Header("api-key", "azure-secret"), openai.Key("sk-of-openai-itself")}, map[string]string{"Api-Key": "azure-secret"}},
		{"x-api-key beside a key", []openai.Option{openai.Header("X-API-Key", "their-secret"), openai.Key("sk-of-openai-itself")}, map[string]string{"X-Api-Key": "their-secret"}},
		{"a token of one's own", []openai.Option{openai.Header("Authorization", "Bearer their-secret"), openai.Key("sk-of-openai-itself")}, map[string]string{"Authorization": "Bearer their-secret"}},
		{"a gateway's key", []openai.Option{openai.Header("x-portkey-api-key", "their-secret")}, map[string]string{"Authorization": "Bearer sk-of-openai-itself", "X-Portkey-Api-Key": "their-secret"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pygenttest.NewServer(t, pygenttest.Status(401, "", "Wrong: azure-secret their-secret sk-of-openai-itself"))
			m, err := openai.New(append(c.opts, openai.Env(env), openai.BaseURL(s.URL()))...)
			require.NoError(t, err)
			_, err = m.Chat(t.Context(), ask())
			require.ErrorContains(t, err, "Check OPENAI_API_KEY for")
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
	_, err = m.Chat(t.Context(), ask(chat.UserMessage("Go."), loaded, chat.UserMessage("On.")))
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
		thought := chat.AssistantMessage("", pygent.ToolCall{ID: "c2", Name: "bash", Arguments: "{}"})
		thought.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"Hm."`)}
		req := withCall("c1", thought, chat.ToolMessage("c2", "ok"))
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
	m := newModel(t, openai.BaseURL(s.URL()))
	signed := chat.AssistantMessage("", pygent.ToolCall{ID: "c2", Name: "bash", Arguments: "{}"})
	signed.ToolCalls[0].Extra = map[string]json.RawMessage{"extra_content": json.RawMessage(`{"google":{"thought_signature":"x"}}`)}
	req := withTools(withCall("c1", signed, chat.ToolMessage("c2", "ok")))
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
	m := newModel(t, openai.BaseURL(s.URL()), openai.ExtraBody(map[string]any{"temperature": 1}))
	answer := chat.AssistantMessage("Hi.")
	answer.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"the temperature"`)}
	_, err := m.Chat(t.Context(), ask(chat.UserMessage("Go."), answer, chat.UserMessage("On.")))
	require.NoError(t, err)
	require.Contains(t, s.Requests()[1].Fields, "temperature")
	require.Empty(t, s.Requests()[1].Chat.Messages[1].Extra)
}

func TestNoAnswerIsSentWithoutContent(t *testing.T) {
	t.Parallel()
	refused := chat.AssistantMessage("")
	refused.Extra = map[string]json.RawMessage{"refusal": json.RawMessage(`"I cannot."`)}
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("").WithReasoning("Hm."), pygenttest.Text("b"))
		m := newModel(t, openai.BaseURL(s.URL()), openai.API(api))
		_, err := m.Chat(t.Context(), ask(chat.UserMessage("Go."), refused, chat.UserMessage("On.")))
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
	m = newModel(t, openai.BaseURL(s.URL()), openai.ExtraBody(map[string]any{"top_k": 1}))
	_, err = m.Chat(t.Context(), ask())
	require.NoError(t, err, "the cause is adapted to as if it had been said directly")
}

func TestEveryProviderIsSatisfiedInTheEnd(t *testing.T) {
	t.Parallel()
	for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
		t.Run("strict "+string(provider), func(t *testing.T) {
			s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b")).Strict(provider)
			m := newModel(t, openai.BaseURL(s.URL()), openai.MaxTokens(100), openai.ParallelToolCalls(true))
			req := withTools(withCall("call_1", chat.UserMessage("And?")))
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

func TestRefusedParametersAreDroppedOnce(t *testing.T) {
	t.Parallel()
	raw := func(status int, body string) pygenttest.Reply {
		return pygenttest.Raw(status, "application/json", body)
	}
	cases := []struct {
		name   string
		reply  pygenttest.Reply
		opts   []openai.Option
		gone   string
		added  string
		notice string
	}{
		{"stream_options", raw(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`), nil, "stream_options", "", "dropped parameter stream_options"},
		{"parallel_tool_calls", raw(422, `{"detail":[{"type":"extra_forbidden","loc":["body","parallel_tool_calls"],"msg":"Extra inputs are not permitted"}]}`),
			[]openai.Option{openai.ParallelToolCalls(true)}, "parallel_tool_calls", "", "dropped parameter parallel_tool_calls"},
		{"temperature", pygenttest.UnsupportedParameter("temperature"),
			[]openai.Option{openai.ExtraBody(map[string]any{"temperature": 0, "top_p": 1})}, "temperature", "", "dropped parameter temperature"},
		{"the limit's name", pygenttest.UnsupportedParameter("max_completion_tokens"),
			[]openai.Option{openai.MaxTokens(5), openai.MaxTokensField("max_completion_tokens")}, "max_completion_tokens", "max_tokens", "sent max_completion_tokens as max_tokens"},
		{"the limit's old name", raw(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`),
			[]openai.Option{openai.MaxTokens(5)}, "max_tokens", "max_completion_tokens", "sent max_tokens as max_completion_tokens"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pygenttest.NewServer(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
			m := newModel(t, append(c.opts, openai.BaseURL(s.URL()))...)
			req := ask()
			req.Tools = []chat.ToolSpec{{Name: "bash"}}
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
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("temperature"), pygenttest.Text("a"), pygenttest.Text("b"))
	m := newModel(t, openai.BaseURL(s.URL()), openai.ExtraBody(map[string]any{"temperature": 0}))
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
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.UnsupportedParameter("max_tokens")).RepeatLast()
	m := newModel(t, openai.BaseURL(s.URL()), openai.MaxTokens(5), openai.MaxTokensField("max_tokens"))
	_, err := m.Chat(t.Context(), ask())
	require.Equal(t, 400, apiError(t, err).Status)
	require.Less(t, len(s.Requests()), 4)
}

func TestOtherRefusalsAreNotAdaptedTo(t *testing.T) {
	t.Parallel()
	for _, reply := range []pygenttest.Reply{
		pygenttest.UnsupportedParameter("messages"),
		pygenttest.UnsupportedParameter("tools"),
		pygenttest.Status(400, "", "The word max_tokens_field only contains it."),
		pygenttest.ContextTooLarge(5),
		pygenttest.Status(429, "", "temperature"),
	} {
		s := pygenttest.NewServer(t, reply)
		m := newModel(t, openai.BaseURL(s.URL()), openai.MaxTokens(5), openai.ExtraBody(map[string]any{"temperature": 1}))
		_, err := m.Chat(t.Context(), ask())
		apiError(t, err)
		require.Len(t, s.Requests(), 1)
	}
}

func TestRefusedFieldsOfMessagesAreLeftOut(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t,
		pygenttest.Status(400, "", "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]"),
		pygenttest.Text("a"), pygenttest.Text("b")).Knows("reasoning_content", "kept")
	m := newModel(t, openai.BaseURL(s.URL()))
	answer := chat.AssistantMessage("Hi.")
	answer.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"r"`), "kept": json.RawMessage(`1`)}
	for range 2 {
		_, err := m.Chat(t.Context(), ask(chat.UserMessage("Go."), answer, chat.UserMessage("On.")))
		require.NoError(t, err)
	}
	require.Len(t, s.Requests(), 3)
	for _, r := range s.Requests()[1:] {
		require.NotContains(t, r.Chat.Messages[1].Extra, "reasoning_content")
		require.Contains(t, r.Chat.Messages[1].Extra, "kept")
	}
}

func TestRejectedImagesBecomePlaceholders(t *testing.T) {
	t.Parallel()
	image := pygent.Message{Role: chat.RoleUser, Parts: []pygent.Part{{Text: "Look:"}, {ImageURL: "data:image/png;base64,AAAA"}}}
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

// The words are those of the servers; internal/openai names the sources.
func TestRejectedFilesAndRecordingsBecomePlaceholders(t *testing.T) {
	t.Parallel()
	pdf := pygent.Part{FileName: "a.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}
	wav := pygent.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="}
	const noFile, noRecording = "Look:\n[file a.pdf left out: the model does not accept files]", "Look:\n[recording left out: the model does not accept recordings]"
	for _, c := range []struct {
		part       pygent.Part
		reply      pygenttest.Reply
		want       string
		remembered bool
	}{
		{pdf, pygenttest.Status(400, "", "This model does not support file content types."), noFile, true},
		{pdf, pygenttest.Status(500, "", "Unknown part type: file"), noFile, true},
		{pdf, pygenttest.Status(400, "", "Invalid value: file. Supported values are: 'text','image_url','video_url' and 'video'."), noFile, true},
		{pdf, pygenttest.Status(400, "", "Unsupported MIME type: application/pdf"), noFile, true},
		{pdf, pygenttest.Status(422, "", "Failed to deserialize: unknown variant `file`, expected `text`"), noFile, true},
		{pdf, pygenttest.Status(400, "", "unsupported content[].type"), noFile, true},
		{pdf, pygenttest.Status(400, "", "Invalid file data: 'messages[1].content[1].file.file_data'."), noFile, false},
		{wav, pygenttest.Status(500, "", "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj"), noRecording, true},
		{wav, pygenttest.Status(404, "", "No endpoints found that support input audio"), noRecording, true},
		{wav, pygenttest.Status(400, "", "content blocks are expected to be either text or image_url type"), noRecording, true},
		{wav, pygenttest.Status(400, "", "The audio file could not be decoded or its format is not supported."), noRecording, false},
	} {
		m, s := serve(t, c.reply, pygenttest.Text("a"), pygenttest.Text("b"))
		message := chat.UserMessage("Look:", c.part)
		var notices []string
		_, err := m.ChatStream(t.Context(), ask(message), func(d pygent.Delta) {
			if d.Notice != "" {
				notices = append(notices, d.Notice)
			}
		})
		require.NoError(t, err)
		require.Len(t, notices, 1)
		require.Regexp(t, "^left (files|recordings) out: the model does not accept them$", notices[0])
		require.Equal(t, c.want, s.Requests()[1].Chat.Messages[0].Content)
		_, err = m.Chat(t.Context(), ask(message))
		require.NoError(t, err)
		require.Equal(t, c.remembered, len(s.Requests()[2].Chat.Messages[0].Parts) == 0)
	}
}

func TestWhatIsNotTakenIsLeftOutOneKindAfterTheOther(t *testing.T) {
	t.Parallel()
	text := pygenttest.Status(400, "", "messages.content must be a string")
	m, s := serve(t, text, text, text, pygenttest.Text("a"))
	_, err := m.Chat(t.Context(), ask(chat.UserMessage("Look:", pygent.Part{ImageURL: "data:image/png;base64,AAAA"},
		pygent.Part{FileName: "a.pdf", FileURL: "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="}, pygent.Part{AudioURL: "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="})))
	require.NoError(t, err)
	require.Len(t, s.Requests(), 4)
	require.Empty(t, s.Requests()[3].Chat.Messages[0].Parts)
}

func TestImagesAreNotBlamedWithoutImages(t *testing.T) {
	t.Parallel()
	m, s := serve(t, pygenttest.Status(400, "", "image input is not supported"))
	_, err := m.Chat(t.Context(), ask())
	require.Error(t, err)
	require.Len(t, s.Requests(), 1)
}

func TestWhatIsKnownOfRolesSurvivesTheWayBackToChat(t *testing.T) {
	t.Parallel()
	for name, replies := range map[string][]pygenttest.Reply{
		"before": {noSystemRole, wantsResponses, notFound, pygenttest.Text("a")},
		"after":  {wantsResponses, notFound, noSystemRole, pygenttest.Text("a")},
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, replies...)
			_, err := m.Chat(t.Context(), ask(chat.SystemMessage("Be kind."), chat.UserMessage("Hi.")))
			require.NoError(t, err)
			last := server.Requests()[3]
			require.Equal(t, []string{"Be kind.\n\nHi."}, texts(last.Chat.Messages))
		})
	}
}

var (
	noSystemRole   = pygenttest.Status(400, "", "System role not supported")
	wantsResponses = pygenttest.Status(400, "", "This model is only supported in v1/responses")
	notFound       = pygenttest.Raw(404, "text/plain", "404 page not found")
)

// shown is what a face shows of a stream.
type shown struct{ text, reasoning, notice string }

func (s *shown) add(d pygent.Delta) {
	if d.Withdrawn {
		s.text, s.reasoning = "", ""
	}
	s.text += d.Text
	s.reasoning += d.Reasoning
	s.notice += d.Notice
}

func TestThoughtsInTagsAreNotTheAnswer(t *testing.T) {
	t.Parallel()
	thinks := pygenttest.Text("Hello there.").WithReasoning("They greet me.").WithQuirks(pygenttest.QuirkThinkTags)
	bothWays(t, func(t *testing.T, call func(*openai.Model, *pygent.ChatRequest) (*pygent.ChatResponse, error)) {
		m, server := serve(t, thinks, pygenttest.Text("Again."), pygenttest.Text("Other."))
		resp, err := call(m, ask())
		require.NoError(t, err)
		require.Equal(t, "Hello there.", resp.Message.Text())

		history := ask(chat.UserMessage("Hi."), resp.Message, chat.UserMessage("And?"))
		_, err = call(m, history)
		require.NoError(t, err)
		sent := server.Requests()[1].Chat.Messages[1]
		require.Equal(t, "<think>\nThey greet me.\n</think>\n\nHello there.", sent.Text(), "that model gets back what it wrote")
		require.Empty(t, sent.Extra)

		history.Model = "another"
		_, err = call(m, history)
		require.NoError(t, err)
		sent = server.Requests()[2].Chat.Messages[1]
		require.Equal(t, "Hello there.", sent.Text())
		require.Empty(t, sent.Extra)
	})
	t.Run("faces", func(t *testing.T) {
		m, _ := serve(t, thinks)
		var s shown
		_, err := m.ChatStream(t.Context(), ask(), s.add)
		require.NoError(t, err)
		require.Equal(t, shown{"Hello there.", "\nThey greet me.\n", ""}, s)
	})
	t.Run("switched off", func(t *testing.T) {
		s := pygenttest.NewServer(t, thinks, pygenttest.Text("Again."))
		m := newModel(t, openai.BaseURL(s.URL()), openai.SendReasoning(false))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		_, err = m.Chat(t.Context(), ask(chat.UserMessage("Hi."), resp.Message, chat.UserMessage("And?")))
		require.NoError(t, err)
		require.Equal(t, "Hello there.", s.Requests()[1].Chat.Messages[1].Text())
	})
}

func TestThoughtsWhoseTagIsInThePrompt(t *testing.T) {
	t.Parallel()
	thinks := pygenttest.Text("They greet me.\n</think>\n\nHello there.")
	m, _ := serve(t, thinks, thinks, pygenttest.Text("Just this."))
	for i, want := range []shown{
		{"Hello there.", "They greet me.", "the beginning of the answer was the model's reasoning, whose opening tag its server leaves out"},
		{"Hello there.", "They greet me.\n", ""},
		{"Just this.", "", "the model answered without reasoning"},
	} {
		var s shown
		resp, err := m.ChatStream(t.Context(), ask(), s.add)
		require.NoError(t, err)
		require.Equal(t, want, s, i)
		require.Equal(t, want.text, resp.Message.Text())
	}
}

func TestAnAnswerOfThoughtsAloneIsEmpty(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]pygenttest.Reply{
		"tags":     pygenttest.Text("<think>\nI should answer."),
		"a field":  pygenttest.Text("").WithReasoning("I should answer."),
		"unclosed": pygenttest.Text("<think>I should answer.</think>"),
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, reply, reply)
			var notices []string
			agent := newAgentOn(t, nowhere{}, m, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventNotice {
					notices = append(notices, e.Text)
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusEmpty, result.Status)
			require.Contains(t, result.Reason, "only reasoning, twice; check its server's reasoning parser")
			require.Contains(t, strings.Join(notices, "\n"), "the model gave only reasoning and no answer")
			messages := server.Requests()[1].Chat.Messages
			require.Contains(t, messages[len(messages)-1].Text(), "had only reasoning")
		})
	}
}

func TestACallInThoughtsIsFound(t *testing.T) {
	t.Parallel()
	call := "I list the tasks.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"true\"}}\n</tool_call>"
	for name, reply := range map[string]pygenttest.Reply{
		"tags": pygenttest.Text("<think>\n" + call), "a field": pygenttest.Text("").WithReasoning(call),
		"in a line": pygenttest.Text("").WithReasoning(strings.Replace(call, "\n", " ", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, reply, stop)
			agent := newAgent(t, m, pygent.WithApproval(approving))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Len(t, results(agent), 2, "the call ran")
		})
	}
}

// A model whose thoughts end with a call that cannot be run hears which it was.
func TestACallInThoughtsIsTold(t *testing.T) {
	t.Parallel()
	call := "I would write <tool_call>{\"name\": \"bash\", \"arguments\": {\"cmd\": \"true\"}}</tool_call>"
	for thoughts, want := range map[string]string{
		call: "has a call of bash in its reasoning, where nothing is run",
		"I'll call bash({\"cmd\": \"true\"}) later.": "had only reasoning",
	} {
		m, server := serve(t, pygenttest.Text("").WithReasoning(thoughts), stop)
		agent := newAgentOn(t, nowhere{}, m)
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		messages := server.Requests()[1].Chat.Messages
		require.Contains(t, messages[len(messages)-1].Text(), want)
	}
}

func TestThoughtsThatAreCutOffAreNoText(t *testing.T) {
	t.Parallel()
	half := pygenttest.Text("Hm, I sh").WithFinish(chat.FinishLength)
	for _, closing := range []string{"</think>", "[/THINK]"} {
		bothWays(t, func(t *testing.T, call func(*openai.Model, *pygent.ChatRequest) (*pygent.ChatResponse, error)) {
			m, _ := serve(t, pygenttest.Text("They greet me.\n"+closing+"\n\nHello."), half, pygenttest.Text("Short."+closing+"Hi."), pygenttest.Text("Plain."), half)
			for i, want := range []string{"Hello.", "", "Hi.", "Plain.", "Hm, I sh"} { // the last model does not think any more
				resp, err := call(m, ask())
				require.NoError(t, err)
				require.Equal(t, want, resp.Message.Text(), i)
			}
		})
	}
}
