// Package bench measures what pygent itself costs: steps, histories, requests,
// tasks, and traffic through the proxy. Commands are measured in bench/runtimes.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
)

// lengths are the lengths of history at which costs are compared. They should be
// the same at both.
var lengths = []int{10, 10_000}

// conversation returns a history of about n messages, like that of a coding
// session.
func conversation(n int) []pygent.Message {
	messages := []pygent.Message{chat.SystemMessage("You are a coding assistant."), chat.UserMessage("Fix the bug.")}
	for i := 0; len(messages) < n; i++ {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			chat.AssistantMessage("Let me look.", pygent.ToolCall{ID: id, Name: "bash", Arguments: fmt.Sprintf(`{"cmd":"sed -n %d,+20p main.go"}`, i)}),
			chat.ToolMessage(id, strings.Repeat(fmt.Sprintf("line %d of the file\n", i), 10)))
	}
	return messages
}

// noop is a runtime that does nothing, for benchmarks of the loop.
type noop struct{ pygent.Runtime }

func (noop) Cleanup() error                                   { return nil }
func (noop) ReadFile(context.Context, string) ([]byte, error) { return nil, io.EOF }

// BenchmarkLoopStep measures the overhead of one step: a scripted model calls a
// tool that does nothing.
func BenchmarkLoopStep(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			step := 0
			model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				step++
				call := pygent.ToolCall{ID: fmt.Sprint("c", step), Name: "noop", Arguments: fmt.Sprintf(`{"n":%d}`, step)}
				return &pygent.ChatResponse{Message: chat.AssistantMessage("", call), FinishReason: chat.FinishToolCalls}, nil
			})
			tool := pygent.NewTool("noop", "Do nothing", func(context.Context, pygent.Runtime, struct {
				N int `json:"n"`
			}) (string, error) {
				return "done", nil
			})
			agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(noop{}), pygent.WithTools(tool),
				pygent.WithHistory(chat.NewHistory(conversation(n)...)))
			require.NoError(b, err)
			defer agent.Close()
			_, err = agent.Step(b.Context(), "go")
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			_, err = agent.RunUntilStop(b.Context(), "", pygent.MaxSteps(b.N), pygent.MaxToolCalls(b.N))
			require.NoError(b, err)
		})
	}
}

// BenchmarkHistoryAppend measures an append to a history in a file.
func BenchmarkHistoryAppend(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			h, err := chat.OpenHistory(filepath.Join(b.TempDir(), "history.json"))
			require.NoError(b, err)
			defer h.Close()
			require.NoError(b, h.Append(conversation(n)...))
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Append(chat.UserMessage("a message of a common length, as users write them")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discard takes the place of the network and of a model's server: it reads the
// body of a request and answers.
type discard struct{ size int64 }

func (d *discard) RoundTrip(r *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return nil, err
	}
	d.size = n
	answer, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": chat.AssistantMessage("ok")}}})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(string(answer))),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

// BenchmarkRequestBody measures a whole call of openai.Model without the network.
// Making the request's body is the part that grows with the history.
func BenchmarkRequestBody(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			server := &discard{}
			model, err := openai.New(openai.BaseURL("http://discard.invalid/v1"), openai.HTTPClient(&http.Client{Transport: server}))
			require.NoError(b, err)
			messages := chat.NewHistory(conversation(n)...).Conversation()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := model.Chat(b.Context(), &pygent.ChatRequest{Messages: messages}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(server.size), "body-bytes")
		})
	}
}
