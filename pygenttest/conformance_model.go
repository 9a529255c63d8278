package pygenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// TestModel tests that a model keeps what [pygent.Model] promises, and
// [pygent.StreamingModel] if it is one. open makes a model that is answered with
// the replies, one for each call: for a server with OpenAI's APIs, that of
// [NewServer]; for others, a server that open makes of them. Only texts, calls,
// usage, gates and the errors of [Status] and [Overloaded] are asked for.
func TestModel(t *testing.T, open func(t *testing.T, replies ...Reply) pygent.Model) {
	for _, check := range modelChecks {
		t.Run(check.name, func(t *testing.T) {
			check.run(t, func(replies ...Reply) pygent.Model { return open(t, replies...) })
		})
	}
}

// modelCheck is one promise of a model.
type modelCheck struct {
	name string
	run  func(t testing.TB, open func(...Reply) pygent.Model)
}

var modelChecks = []modelCheck{
	{"text", checkAnswer},
	{"stream", checkModelStream},
	{"tool calls", checkToolCalls},
	{"temporary errors", checkTemporary},
	{"lasting errors", checkLasting},
	{"cancelling", checkModelCancel},
	{"the request is the agent's", checkRequest},
	{"an empty request", checkEmptyRequest},
	{"calls at the same time", checkModelConcurrent},
}

// question is a request as an agent makes it.
func question() *pygent.ChatRequest {
	return &pygent.ChatRequest{
		Messages: []pygent.Message{chat.SystemMessage("You are a test."), chat.UserMessage("Hello?")},
		Tools:    []chat.ToolSpec{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
	}
}

func checkAnswer(t testing.TB, open func(...Reply) pygent.Model) {
	usage := pygent.Usage{PromptTokens: 11, CompletionTokens: 7}
	res, err := open(Text("grüße, 世界 🙂\n").WithUsage(usage)).Chat(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, chat.RoleAssistant, res.Message.Role)
	require.Equal(t, "grüße, 世界 🙂\n", res.Message.Text())
	require.Empty(t, res.Message.ToolCalls)
	require.Equal(t, chat.FinishStop, res.FinishReason)
	require.Equal(t, usage, res.Usage, "the tokens that the server reports")
}

func checkModelStream(t testing.TB, open func(...Reply) pygent.Model) {
	reply := TextAndCalls("first I look, über alles", Call("look", map[string]any{"path": "f"}))
	model := open(reply, reply)
	whole, err := model.Chat(t.Context(), question())
	require.NoError(t, err)
	text := ""
	streamed, err := pygent.Stream(t.Context(), model, question(), func(d pygent.Delta) {
		if d.Withdrawn {
			text = ""
		}
		text += d.Text
	})
	require.NoError(t, err)
	require.Equal(t, whole.Message.Text(), streamed.Message.Text(), "a streamed answer is the same")
	require.Len(t, streamed.Message.ToolCalls, len(whole.Message.ToolCalls))
	if _, streams := model.(pygent.StreamingModel); streams {
		require.Equal(t, streamed.Message.Text(), text, "the pieces make the answer")
	}
}

func checkToolCalls(t testing.TB, open func(...Reply) pygent.Model) {
	res, err := open(Calls(Call("look", map[string]any{"path": "a\n\"b\""}), Call("look", nil), Call("look", map[string]any{"path": "ü"}))).Chat(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, chat.FinishToolCalls, res.FinishReason)
	require.Len(t, res.Message.ToolCalls, 3)
	ids := map[string]bool{}
	for i, want := range []string{`{"path":"a\n\"b\""}`, `{}`, `{"path":"ü"}`} {
		call := res.Message.ToolCalls[i]
		require.Equal(t, "look", call.Name)
		require.JSONEq(t, want, call.Arguments, "calls and their arguments come in their order")
		require.NotEmpty(t, call.ID)
		ids[call.ID] = true
	}
	require.Len(t, ids, 3, "each call has an id of its own")
}

func checkTemporary(t testing.TB, open func(...Reply) pygent.Model) {
	model := open(Overloaded(), Text("next"))
	_, err := model.Chat(t.Context(), question())
	var api *pygent.APIError
	require.ErrorAs(t, err, &api, "an error of the server, which only the agent repeats")
	require.True(t, api.Retryable, "it may pass")
	res, err := model.Chat(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, "next", res.Message.Text())
}

func checkLasting(t testing.TB, open func(...Reply) pygent.Model) {
	_, err := open(Status(400, "invalid_request_error", "the request is wrong")).Chat(t.Context(), question())
	require.ErrorContains(t, err, "the request is wrong", "the server's words")
	var api *pygent.APIError
	require.ErrorAs(t, err, &api)
	require.False(t, api.Retryable, "it does not pass")
}

func checkModelCancel(t testing.TB, open func(...Reply) pygent.Model) {
	gate := make(chan struct{})
	defer close(gate)
	ctx, cancel := context.WithCancel(t.Context())
	model, ended := open(Text("late").WithGate(gate)), make(chan error, 1)
	go func() {
		_, err := model.Chat(ctx, question())
		ended <- err
	}()
	time.AfterFunc(100*time.Millisecond, cancel)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(atMost):
		require.Fail(t, "the end of the context does not end the call")
	}
}

func checkRequest(t testing.TB, open func(...Reply) pygent.Model) {
	req := question()
	before, err := json.Marshal(req)
	require.NoError(t, err)
	_, err = open(Text("hello")).Chat(t.Context(), req)
	require.NoError(t, err)
	after, err := json.Marshal(req)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the model does not change the request")
}

func checkEmptyRequest(t testing.TB, open func(...Reply) pygent.Model) {
	require.NotPanics(t, func() {
		res, err := open(Text("hello")).Chat(t.Context(), &pygent.ChatRequest{})
		require.True(t, (res == nil) == (err != nil), "an answer or an error")
	})
}

func checkModelConcurrent(t testing.TB, open func(...Reply) pygent.Model) {
	const n = 8
	replies := make([]Reply, n)
	for i := range replies {
		replies[i] = Text(fmt.Sprint("answer ", i))
	}
	model, got, errs := open(replies...), make([]string, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			res, err := model.Chat(t.Context(), question())
			if errs[i] = err; err == nil {
				got[i] = res.Message.Text()
			}
		})
	}
	all.Wait()
	distinct := map[string]bool{}
	for i := range n {
		require.NoError(t, errs[i])
		distinct[got[i]] = true
	}
	require.Len(t, distinct, n, "each call has an answer of its own")
}
