package pygenttest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// responsesOf returns a client of the Responses API that does not retry.
func responsesOf(s *pygenttest.Server) responses.ResponseService {
	transport := &http.Transport{DisableKeepAlives: true}
	return responses.NewResponseService(option.WithBaseURL(s.URL()), option.WithAPIKey("sk-scripted"),
		option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: transport}))
}

// question returns a request that has a tool and asks for the content of
// reasoning.
func question() responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model:        "gpt-5.4",
		Instructions: param.NewOpt("Be brief."),
		Input:        responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("hi")},
		Store:        param.NewOpt(false),
		Include:      []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name:       "bash",
			Strict:     param.NewOpt(false),
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"cmd": map[string]any{"type": "string"}}},
		}}},
	}
}

// thoughtful returns an answer with everything that an answer can have.
func thoughtful() pygenttest.Reply {
	return pygenttest.TextAndCalls("I look around first.",
		pygenttest.Call("bash", map[string]any{"cmd": "a rather long command"}), pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
		WithReasoning("The user wants this done.").
		WithUsage(pygent.Usage{PromptTokens: 10, CompletionTokens: 7, CachedTokens: 4, ReasoningTokens: 3})
}

// responseEvents reads a stream to its end.
func responseEvents(t *testing.T, s *pygenttest.Server) ([]responses.ResponseStreamEventUnion, error) {
	t.Helper()
	service := responsesOf(s)
	stream := service.NewStreaming(t.Context(), question())
	var out []responses.ResponseStreamEventUnion
	for stream.Next() {
		require.EqualValues(t, len(out), stream.Current().SequenceNumber)
		out = append(out, stream.Current())
	}
	require.NoError(t, stream.Close())
	return out, stream.Err()
}

func requireThoughtful(t *testing.T, r responses.Response) {
	t.Helper()
	require.Equal(t, responses.ResponseStatusCompleted, r.Status)
	require.Equal(t, "I look around first.", r.OutputText())
	require.Len(t, r.Output, 4)
	require.Equal(t, "The user wants this done.", r.Output[0].AsReasoning().Summary[0].Text)
	require.NotEmpty(t, r.Output[0].AsReasoning().EncryptedContent)
	call := r.Output[3].AsFunctionCall()
	require.Equal(t, "call_2", call.CallID)
	require.Equal(t, "bash", call.Name)
	require.JSONEq(t, `{"cmd":"ls"}`, call.Arguments)
	require.EqualValues(t, 10, r.Usage.InputTokens)
	require.EqualValues(t, 4, r.Usage.InputTokensDetails.CachedTokens)
	require.EqualValues(t, 7, r.Usage.OutputTokens)
	require.EqualValues(t, 3, r.Usage.OutputTokensDetails.ReasoningTokens)
}

func TestResponsesArePlain(t *testing.T) {
	s := pygenttest.NewServer(t, thoughtful())
	service := responsesOf(s)
	r, err := service.New(t.Context(), question())
	require.NoError(t, err)
	requireThoughtful(t, *r)

	req := s.Requests()[0]
	require.Equal(t, "/v1/responses", req.Path)
	require.Equal(t, []pygent.Message{chat.SystemMessage("Be brief."), chat.UserMessage("hi")}, req.Chat.Messages)
	require.Equal(t, "gpt-5.4", req.Chat.Model)
	require.Equal(t, "bash", req.Chat.Tools[0].Name)
	require.JSONEq(t, `"hi"`, string(req.Fields["input"]))
	require.NoError(t, req.Err)
}

func TestResponsesStream(t *testing.T) {
	s := pygenttest.NewServer(t, thoughtful())
	events, err := responseEvents(t, s)
	require.NoError(t, err)
	require.True(t, s.Requests()[0].Stream)
	texts := map[string]string{}
	var order []string
	for _, e := range events {
		if e.Delta != "" {
			texts[e.ItemID] += e.Delta
		}
		if len(order) == 0 || order[len(order)-1] != e.Type {
			order = append(order, e.Type)
		}
	}
	call := []string{
		"response.output_item.added", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done",
	}
	require.Equal(t, strings.Join(append([]string{
		"response.created", "response.in_progress",
		"response.output_item.added", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
		"response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "response.output_item.done",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done",
	}, append(append(call, call...), "response.completed")...), "\n"), strings.Join(order, "\n"))
	require.Equal(t, map[string]string{
		"rs_resp_1": "The user wants this done.", "msg_resp_1": "I look around first.",
		"fc_resp_1_0": `{"cmd":"a rather long command"}`, "fc_resp_1_1": `{"cmd":"ls"}`,
	}, texts)
	requireThoughtful(t, events[len(events)-1].Response)
}

func TestResponsesEndEarly(t *testing.T) {
	long := pygenttest.Text("a text that takes several pieces")
	tests := map[string]struct {
		reply pygenttest.Reply
		last  string
		check func(*testing.T, responses.ResponseStreamEventUnion)
	}{
		"length": {long.WithFinish(chat.FinishLength), "response.incomplete", func(t *testing.T, e responses.ResponseStreamEventUnion) {
			require.Equal(t, "max_output_tokens", e.Response.IncompleteDetails.Reason)
		}},
		"filter": {long.WithQuirks(pygenttest.QuirkContentFilter), "response.incomplete", func(t *testing.T, e responses.ResponseStreamEventUnion) {
			require.Equal(t, "content_filter", e.Response.IncompleteDetails.Reason)
			require.Empty(t, e.Response.Output)
		}},
		"failed": {long.FailAfter(1, "server_error", "Oops"), "response.failed", func(t *testing.T, e responses.ResponseStreamEventUnion) {
			require.EqualValues(t, "server_error", e.Response.Error.Code)
			require.Equal(t, "Oops", e.Response.Error.Message)
		}},
		"error event": {long.FailAfter(1, "server_error", "Oops").WithQuirks(pygenttest.QuirkErrorEvent), "error",
			func(t *testing.T, e responses.ResponseStreamEventUnion) {
				require.Equal(t, "server_error", e.Code)
				require.Equal(t, "Oops", e.Message)
			}},
		"no end": {long.WithQuirks(pygenttest.QuirkNoFinishReason), "response.output_item.done",
			func(*testing.T, responses.ResponseStreamEventUnion) {}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			events, err := responseEvents(t, pygenttest.NewServer(t, tt.reply))
			require.NoError(t, err)
			last := events[len(events)-1]
			require.Equal(t, tt.last, last.Type)
			tt.check(t, last)
		})
	}
}

func TestResponsesBreak(t *testing.T) {
	long := pygenttest.Text("a text that takes several pieces")
	s := pygenttest.NewServer(t,
		long.CutAfter(1), long.CutAfter(100), pygenttest.Disconnect(), pygenttest.RateLimited(2*time.Second), pygenttest.HTML(502),
		long.FailAfter(1, "server_error", "Oops").WithQuirks(pygenttest.QuirkNestedError))
	events, err := responseEvents(t, s)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "response.output_text.delta", events[len(events)-1].Type)
	events, err = responseEvents(t, s)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "response.output_item.done", events[len(events)-1].Type)
	_, err = responseEvents(t, s)
	require.ErrorIs(t, err, io.EOF)
	for _, status := range []int{429, 502} {
		_, err = responseEvents(t, s)
		var apiErr *openai.Error
		require.ErrorAs(t, err, &apiErr)
		require.Equal(t, status, apiErr.StatusCode)
	}
	_, err = responseEvents(t, s)
	require.ErrorContains(t, err, "Oops")
}

func TestResponsesTellFailureInAPlainAnswer(t *testing.T) {
	s := pygenttest.NewServer(t, pygenttest.Text("never").FailAfter(1, "server_error", "Oops"))
	service := responsesOf(s)
	r, err := service.New(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, responses.ResponseStatusFailed, r.Status)
	require.Equal(t, "Oops", r.Error.Message)
}

// result returns an item of the input with the output of a call.
func result(callID string, output responses.ResponseInputItemFunctionCallOutputOutputUnionParam) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
		CallID: param.NewOpt(callID), Output: output,
	}}
}

// TestResponsesTakeTheirAnswersBack sends the output of one call as the input
// of the next, with results that hold text and images.
func TestResponsesTakeTheirAnswersBack(t *testing.T) {
	s := pygenttest.NewServer(t, thoughtful(), pygenttest.Text("done"))
	service := responsesOf(s)
	ask := question()
	r, err := service.New(t.Context(), ask)
	require.NoError(t, err)
	items := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("hi", responses.EasyInputMessageRoleDeveloper)}
	for _, out := range r.Output {
		items = append(items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(out.RawJSON())))
	}
	image := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: "a picture"}},
		{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: param.NewOpt("data:image/png;base64,iVBORw0KGgo=")}},
	}
	items = append(items,
		result("call_1", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt("main.go")}),
		result("call_2", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfResponseFunctionCallOutputItemArray: image}))
	ask.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
	ask.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow}
	_, err = service.New(t.Context(), ask)
	require.NoError(t, err)

	got := s.Requests()[1].Chat.Messages
	require.Len(t, got, 5)
	require.Equal(t, chat.SystemMessage("hi"), got[1])
	require.Equal(t, "I look around first.", got[2].Content)
	require.Len(t, got[2].ToolCalls, 2)
	var reasoning []struct{ ID string }
	require.NoError(t, json.Unmarshal(got[2].Extra["reasoning_items"], &reasoning))
	require.Equal(t, "rs_resp_1", reasoning[0].ID)
	require.Equal(t, chat.ToolMessage("call_1", "main.go"), got[3])
	require.Equal(t, "data:image/png;base64,iVBORw0KGgo=", got[4].Parts[1].ImageURL)
}

func TestResponsesRefuse(t *testing.T) {
	s := pygenttest.NewServer(t, thoughtful())
	service := responsesOf(s)
	ask := question()
	r, err := service.New(t.Context(), ask)
	require.NoError(t, err)
	answered := func(out ...responses.ResponseOutputItemUnion) responses.ResponseNewParamsInputUnion {
		items := responses.ResponseInputParam{}
		for _, item := range out {
			items = append(items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		}
		text := responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt("ok")}
		return responses.ResponseNewParamsInputUnion{OfInputItemList: append(items, result("call_1", text), result("call_2", text))}
	}
	for want, out := range map[string][]responses.ResponseOutputItemUnion{
		"without its required 'reasoning' item: 'rs_resp_1'":              r.Output[1:],
		"No tool call found for function call output with call_id call_1": r.Output[:2],
	} {
		ask.Input = answered(out...)
		_, err = service.New(t.Context(), ask)
		var apiErr *openai.Error
		require.ErrorAs(t, err, &apiErr)
		require.Contains(t, apiErr.Message, want)
	}
	for _, provider := range []pygenttest.Provider{pygenttest.Gemini, pygenttest.Mistral} {
		s.Strict(provider)
		var apiErr *openai.Error
		_, err = service.New(t.Context(), question())
		require.ErrorAs(t, err, &apiErr)
		require.Equal(t, http.StatusNotFound, apiErr.StatusCode, "it has no such API")
	}
}

func TestResponsesStall(t *testing.T) {
	gate := make(chan struct{})
	s := pygenttest.NewServer(t, pygenttest.Text("a text that takes several pieces").WithChunkGate(gate))
	service := responsesOf(s)
	stream := service.NewStreaming(t.Context(), question())
	var types []string
	for stream.Next() {
		types = append(types, stream.Current().Type)
		if stream.Current().Type == "response.output_text.delta" && len(types) == 5 {
			close(gate) // nothing more comes before
		}
	}
	require.NoError(t, stream.Err())
	require.NoError(t, stream.Close())
	require.Equal(t, []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta",
	}, types[:5], "an item opens with its first piece")
	require.Equal(t, "response.completed", types[len(types)-1])
}
