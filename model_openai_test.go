package pygent_test

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

// serve returns a model that uses a server with the given replies.
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

// bothWays runs a test twice, with a plain call and with a streamed one.
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
	t.Parallel()
	_, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil))
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

	env["PYGENT_OPENAI_API"] = "completions"
	_, err = pygent.NewOpenAIModel(pygent.OpenAIEnv(lookup))
	require.ErrorContains(t, err, "PYGENT_OPENAI_API", "every setting of a model counts")
	delete(env, "PYGENT_OPENAI_API")
	_, err = pygent.NewOpenAIModel(pygent.OpenAIEnv(lookup), pygent.OpenAIKey(""), pygent.OpenAIBaseURL(""))
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
	m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(s.URL()))
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

func TestAModelWithoutASystemRoleIsToldByTheUser(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Call("job_list", nil), stop).Strict(pygenttest.Gemma)
	m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(s.URL()))
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
		require.Equal(t, pygent.RoleUser, first.Role)
		require.Equal(t, agent.History().Messages()[0].Text()+"\n\ngo", first.Text())
	}
	require.Equal(t, pygent.RoleSystem, agent.History().Messages()[0].Role, "on the wire only")
}

func TestOptionsReadWhatPeoplePaste(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"\r", "\r\n", "\ufeff", "\u200b", " "} {
		s := pygenttest.NewServer(t, pygenttest.Text("a"), stop)
		m, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIKey(mark+"Bearer "+testKey+mark), pygent.OpenAIBaseURL(s.URL()+"/chat/completions"+mark),
			pygent.OpenAIDefaultModel("m"+mark), pygent.OpenAIHeader("X-Y", mark+"z"+mark))
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
		opt  pygent.OpenAIOption
		want string
	}{
		{pygent.OpenAIBaseURL("localhost:8080"), "want something like"},
		{pygent.OpenAIBaseURL("http://[bad"), "base URL"},
		{pygent.OpenAIBaseURL("http://user:hunter2@h/v1"), "credentials belong"},
		{pygent.OpenAIKey("a\nhunter2"), "the API key: there is a line end (U+000A) as its character 2"},
		{pygent.OpenAIBaseURL("http://h/\u200bv1"), "the base URL: there is a zero-width space (U+200B) as its character 10"},
		{pygent.OpenAIDefaultModel("a\rb"), "the name of the model: there is a carriage return (U+000D)"},
		{pygent.OpenAIMaxTokens(-2), "NoLimit"},
		{pygent.OpenAIHeader("X Y", "z"), "cannot be sent"},
		{pygent.OpenAIHeader("X", "hunter2\nY: z"), `the value of the header "X": there is a line end`},
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
	t.Parallel()
	m, _ := serve(t, pygenttest.Status(401, "invalid_api_key", "Incorrect API key provided: "+testKey))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "model", m)
	_, err := m.Chat(t.Context(), ask())
	shown := fmt.Sprintf("%v %+v %#v %s %s %v", m, m, m, m, log.String(), err)
	require.NotContains(t, shown, testKey)
	require.Contains(t, shown, "gpt-4.1-mini")
	require.ErrorContains(t, err, "[key]")
	require.ErrorContains(t, err, "is the API key right")
}

func TestOpenAIModelSendsItsOptions(t *testing.T) {
	t.Parallel()
	s := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("b")).Knows("n_predict", "provider")
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()+"/"),
		pygent.OpenAIHeader("X-Title", "pygent"),
		pygent.OpenAIMaxTokens(7), pygent.OpenAIMaxTokensField("n_predict"),
		pygent.OpenAIParallelToolCalls(false),
		pygent.OpenAIExtraBody(map[string]any{"temperature": 0.5, "provider": map[string]any{"only": []string{"x"}}}))
	req := ask()
	req.Tools = []pygent.ToolSpec{{Name: "bash", Description: "a <b>", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}, {Name: "stop"}}
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
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		s := pygenttest.NewServer(t, pygenttest.Status(500, "", "again"), pygenttest.Text("a"), pygenttest.Text("b"))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIAPI(api))
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	call := pygenttest.Call("bash", nil).WithCallIDs("call_0")
	m, _ := serve(t, call, call)
	first, err := m.Chat(t.Context(), ask())
	require.NoError(t, err)
	second, err := m.Chat(t.Context(), ask(pygent.UserMessage("Go."), first.Message, pygent.ToolMessage("call_0", "x")))
	require.NoError(t, err)
	require.NotEqual(t, "call_0", second.Message.ToolCalls[0].ID)
}

func TestUnknownFieldsGoBackToTheServer(t *testing.T) {
	t.Parallel()
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
			bothWays(t, func(t *testing.T, chat chatFunc) {
				m, _ := serve(t, pygenttest.Raw(200, "text/event-stream", body))
				resp, err := chat(m, ask())
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

func TestAStreamNeedsNoListener(t *testing.T) {
	t.Parallel()
	m, _ := serve(t, pygenttest.Text("a"))
	resp, err := m.ChatStream(t.Context(), ask(), nil)
	require.NoError(t, err)
	require.Equal(t, "a", resp.Message.Content)
}
