package pygenttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func ask(text string) *pygent.ChatRequest {
	return &pygent.ChatRequest{Messages: []pygent.Message{chat.UserMessage(text)}}
}

func TestScriptedModelGivesItsRepliesInOrder(t *testing.T) {
	m := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Two at once.", pygenttest.Call("bash", map[string]any{"cmd": "ls"}), pygenttest.Call("stop", nil)),
		pygenttest.Call("bash", "{not json"),
		pygenttest.Text("Done.").WithUsage(pygent.Usage{PromptTokens: 3}).WithFinish(chat.FinishLength).WithReasoning("Hm."),
	)
	require.Equal(t, 3, m.Remaining())

	first, err := m.Chat(t.Context(), ask("go"))
	require.NoError(t, err)
	require.Equal(t, chat.AssistantMessage("Two at once.",
		pygent.ToolCall{ID: "call_1", Name: "bash", Arguments: `{"cmd":"ls"}`},
		pygent.ToolCall{ID: "call_2", Name: "stop", Arguments: "{}"}), first.Message)
	require.Equal(t, chat.FinishToolCalls, first.FinishReason)
	require.Zero(t, first.Usage)

	second, err := m.Chat(t.Context(), ask("go"))
	require.NoError(t, err)
	require.Equal(t, []pygent.ToolCall{{ID: "call_3", Name: "bash", Arguments: "{not json"}}, second.Message.ToolCalls)

	third, err := m.Chat(t.Context(), ask("go"))
	require.NoError(t, err)
	require.Equal(t, "Done.", third.Message.Content)
	require.Equal(t, json.RawMessage(`"Hm."`), third.Message.Extra["reasoning_content"])
	require.Equal(t, chat.FinishLength, third.FinishReason)
	require.Equal(t, int64(3), third.Usage.PromptTokens)

	_, err = m.Chat(t.Context(), ask("go"))
	require.ErrorIs(t, err, pygenttest.ErrScriptEnded)
	require.ErrorContains(t, err, "it has 3 replies and this is request 4")
	require.Len(t, m.Requests(), 4)
	require.Zero(t, m.Remaining())
}

func TestScriptedModelStreamsWholeRunes(t *testing.T) {
	text := strings.Repeat("grüße, 世界! ", 20)
	m := pygenttest.NewScriptedModel(pygenttest.Text(text).WithReasoning("наконец-то понял"))
	var got, reasoning strings.Builder
	deltas := 0
	resp, err := m.ChatStream(t.Context(), ask("hi"), func(d pygent.Delta) {
		deltas++
		require.True(t, json.Valid([]byte(`"`+d.Text+`"`)))
		require.NotContains(t, d.Text, "\uFFFD")
		got.WriteString(d.Text)
		reasoning.WriteString(d.Reasoning)
	})
	require.NoError(t, err)
	require.Equal(t, text, got.String())
	require.Equal(t, text, resp.Message.Content)
	require.Equal(t, "наконец-то понял", reasoning.String())
	require.Greater(t, deltas, 10)
}

func TestScriptedModelStartsAgainWhenToldTo(t *testing.T) {
	text := func(m *pygenttest.ScriptedModel) string {
		resp, err := m.Chat(t.Context(), ask("hi"))
		require.NoError(t, err)
		return resp.Message.Content
	}
	a, b := pygenttest.Text("a"), pygenttest.Text("b")
	loop := pygenttest.NewScriptedModel(a, b).Loop()
	require.Equal(t, "aba", text(loop)+text(loop)+text(loop))
	last := pygenttest.NewScriptedModel(a).Add(b).RepeatLast()
	require.Equal(t, "abb", text(last)+text(last)+text(last))

	_, err := pygenttest.NewScriptedModel().Loop().Chat(t.Context(), ask("hi"))
	require.ErrorIs(t, err, pygenttest.ErrScriptEnded)
}

func TestScriptedModelTellsConversationsApart(t *testing.T) {
	m := pygenttest.NewScriptedModel(pygenttest.Text("main")).
		On("You are Tester", pygenttest.Text("by persona")).
		On("write tests", pygenttest.Text("first"), pygenttest.Text("second"))
	ask := func(messages ...pygent.Message) string {
		resp, err := m.Chat(t.Context(), &pygent.ChatRequest{Messages: messages})
		require.NoError(t, err)
		return resp.Message.Content
	}
	one, two := chat.UserMessage("write tests for a.go"), chat.UserMessage("write tests for b.go")
	require.Equal(t, "first", ask(one))
	require.Equal(t, "first", ask(two))
	require.Equal(t, "second", ask(one, chat.AssistantMessage("first"), chat.UserMessage("more")))
	require.Equal(t, "by persona", ask(chat.SystemMessage("You are Tester."), one))
	require.Equal(t, "main", ask(chat.UserMessage("hello")))
}

func TestScriptedModelFailsAsAClientWould(t *testing.T) {
	cause := errors.New("boom")
	tests := map[string]struct {
		reply  pygenttest.Reply
		deltas int
		check  func(t *testing.T, err error)
	}{
		"error":      {pygenttest.Error(cause), 0, func(t *testing.T, err error) { require.ErrorIs(t, err, cause) }},
		"no error":   {pygenttest.Error(nil), 0, func(t *testing.T, err error) { require.Error(t, err) }},
		"rate limit": {pygenttest.RateLimited(2 * time.Second), 0, apiError(429, true, 2*time.Second)},
		"quota":      {pygenttest.QuotaExceeded(), 0, apiError(429, false, 0)},
		"overloaded": {pygenttest.Overloaded(), 0, apiError(503, true, 0)},
		"unauthorised": {
			pygenttest.Status(401, "invalid_api_key", "no"), 0, apiError(401, false, 0),
		},
		"cut": {pygenttest.Text("a long text, cut off").CutAfter(1), 1, func(t *testing.T, err error) {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			apiError(0, true, 0)(t, err)
		}},
		"cut late":   {pygenttest.Text("short").CutAfter(math.MaxInt), 1, apiError(0, true, 0)},
		"disconnect": {pygenttest.Disconnect(), 0, apiError(0, true, 0)},
		"fails":      {pygenttest.Text("a long text, cut off").FailAfter(2, "server_error", "oops"), 2, apiError(200, true, 0)},
		"raw":        {pygenttest.HTML(502), 0, func(t *testing.T, err error) { require.ErrorContains(t, err, "needs a Server") }},
		"no status":  {pygenttest.Status(7, "", ""), 0, func(t *testing.T, err error) { require.ErrorContains(t, err, "7 is no HTTP status") }},
		"arguments": {pygenttest.Calls(pygenttest.Call("bash", make(chan int))), 0, func(t *testing.T, err error) {
			require.ErrorContains(t, err, "encode the arguments of bash")
		}},
		"extra": {pygenttest.Text("").WithExtra("x", make(chan int)), 0, func(t *testing.T, err error) {
			require.ErrorContains(t, err, "encode the field x")
		}},
		"no response": {pygenttest.Func(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return nil, nil
		}), 0, func(t *testing.T, err error) { require.ErrorContains(t, err, "returned no response") }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			deltas := 0
			_, err := pygenttest.NewScriptedModel(tt.reply).ChatStream(t.Context(), ask("hi"), func(pygent.Delta) { deltas++ })
			tt.check(t, err)
			require.Equal(t, tt.deltas, deltas)
		})
	}
}

func apiError(status int, retryable bool, after time.Duration) func(*testing.T, error) {
	return func(t *testing.T, err error) {
		t.Helper()
		var e *pygent.APIError
		require.ErrorAs(t, err, &e)
		require.Equal(t, status, e.Status)
		require.Equal(t, retryable, e.Retryable)
		require.Equal(t, after, e.RetryAfter)
	}
}

func TestRepliesCanDependOnTheRequest(t *testing.T) {
	echo := func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{Message: chat.AssistantMessage("echo " + req.Messages[0].Content)}, nil
	}
	m := pygenttest.NewScriptedModel(
		pygenttest.Func(echo),
		pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			return pygenttest.Call("stop", map[string]string{"why": req.Messages[0].Content})
		}),
	)
	resp, err := m.Chat(t.Context(), ask("hi"))
	require.NoError(t, err)
	require.Equal(t, "echo hi", resp.Message.Content)
	require.Equal(t, chat.FinishStop, resp.FinishReason)
	resp, err = m.Chat(t.Context(), ask("hi"))
	require.NoError(t, err)
	require.Equal(t, `{"why":"hi"}`, resp.Message.ToolCalls[0].Arguments)
}

func TestScriptedModelWaitsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := pygenttest.NewScriptedModel(
			pygenttest.Text("slow").WithDelay(time.Hour).WithGate(gate),
			pygenttest.Text("in two or more pieces").WithChunkDelay(time.Minute),
			pygenttest.Text("never").WithGate(nil),
		)
		go func() { gate <- struct{}{} }()
		start := time.Now()
		_, err := m.Chat(t.Context(), ask("hi"))
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(start))

		var at []time.Duration
		start = time.Now()
		_, err = m.ChatStream(t.Context(), ask("hi"), func(pygent.Delta) { at = append(at, time.Since(start)) })
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, at)

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if m.WaitRequests(ctx, 3) == nil {
				cancel()
			}
		}()
		_, err = m.Chat(ctx, ask("hi"))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, m.WaitRequests(ctx, 4), context.Canceled)
	})
}

func TestScriptedModelServesManyAgentsAtOnce(t *testing.T) {
	const agents = 20
	m := pygenttest.NewScriptedModel(pygenttest.Call("bash", nil)).Loop()
	var group sync.WaitGroup
	ids := make(chan string, agents)
	for range agents {
		group.Go(func() {
			resp, err := m.Chat(t.Context(), ask("hi"))
			if err == nil {
				ids <- resp.Message.ToolCalls[0].ID
			}
		})
	}
	group.Wait()
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		seen[id] = true
	}
	require.Len(t, seen, agents)
	require.Len(t, m.Requests(), agents)
}

func TestRepliesAreValues(t *testing.T) {
	base := pygenttest.Call("bash", nil)
	named := base.WithCallIDs("mine").WithExtra("a", 1)
	m := pygenttest.NewScriptedModel(base, named, base)
	for _, want := range []string{"call_1", "mine", "call_2"} {
		resp, err := m.Chat(t.Context(), ask("hi"))
		require.NoError(t, err)
		require.Equal(t, want, resp.Message.ToolCalls[0].ID)
	}
}

func FuzzScriptedModelStreamsTheWholeText(f *testing.F) {
	f.Add("")
	f.Add("grüße, 世界!")
	f.Add("\xff\xfe broken bytes \xc3")
	f.Add(strings.Repeat("long ", 5000))
	f.Fuzz(func(t *testing.T, text string) {
		var got strings.Builder
		resp, err := pygenttest.NewScriptedModel(pygenttest.Text(text)).
			ChatStream(t.Context(), ask("hi"), func(d pygent.Delta) { got.WriteString(d.Text) })
		require.NoError(t, err)
		require.Equal(t, text, got.String())
		require.Equal(t, text, resp.Message.Content)
	})
}
