package pygent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longConversation returns n messages as an agent keeps them: encoded once.
func longConversation(tb testing.TB, n int) []Message {
	tb.Helper()
	messages := make([]Message, 0, n)
	add := func(m Message) {
		m, err := m.encoded()
		require.NoError(tb, err)
		messages = append(messages, m)
	}
	add(SystemMessage("You are Pygent."))
	add(UserMessage("Go on."))
	for i := 0; len(messages) < n; i++ {
		id := fmt.Sprintf("call_%d", i)
		call := AssistantMessage("", ToolCall{ID: id, Name: "bash", Arguments: `{"cmd":"go test ./..."}`})
		call.Extra = map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"Let me see what the tests say."`)}
		add(call)
		add(ToolMessage(id, "$ go test ./...\n"+strings.Repeat("ok\n", 100)))
	}
	return messages[:n]
}

func testModel(tb testing.TB, opts ...OpenAIOption) *OpenAIModel {
	tb.Helper()
	m, err := NewOpenAIModel(append([]OpenAIOption{OpenAIEnv(nil), OpenAIKey("sk-test")}, opts...)...)
	require.NoError(tb, err)
	return m
}

func TestRequestBodyBeginsWithThatOfTheStepBefore(t *testing.T) {
	messages := longConversation(t, 50)
	messages = append(messages, UserMessage("And now?"), AssistantMessage("This."))
	tools := []ToolSpec{{Name: "bash", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "stop"}}
	for _, api := range []OpenAIProtocol{OpenAIChat, OpenAIResponses} {
		for _, a := range []adaptation{{}, {bridged: map[Role]bool{RoleTool: true}, shortIDs: true, noImages: true}} {
			m := testModel(t, OpenAIAPI(api), OpenAIExtraBody(map[string]any{"temperature": 0.5, "user": "u"}), OpenAIMaxTokens(100))
			var before []byte
			for n := 2; n <= len(messages); n++ {
				body, err := m.requestBody(&ChatRequest{Messages: messages[:n], Tools: tools}, "m", a, true)
				require.NoError(t, err)
				require.True(t, json.Valid(body))
				require.True(t, strings.HasPrefix(string(body), strings.TrimSuffix(string(before), "]}")))
				before = body
			}
		}
	}
}

func TestMessagesInAnotherShapeAreEncodedOnce(t *testing.T) {
	for _, m := range []*OpenAIModel{testModel(t, OpenAISendReasoning(false)), testModel(t, OpenAIAPI(OpenAIResponses))} {
		messages := longConversation(t, 3)
		shape := m.shape("m", adaptation{})
		first, err := shape.encode(messages[2])
		require.NoError(t, err)
		require.NotContains(t, string(first), "reasoning_content")
		second, err := shape.encode(messages[2])
		require.NoError(t, err)
		require.Same(t, &first[0], &second[0])
	}
}

func TestMessagesAreSentAsTheyAreKeptWhereNothingIsInTheWay(t *testing.T) {
	messages := longConversation(t, 3)
	sent, err := testModel(t).shape("m", adaptation{}).encode(messages[2])
	require.NoError(t, err)
	require.Same(t, &messages[2].enc.json[0], &sent[0])
}

// BenchmarkRequestBody is bound by DESIGN §7 to 4 ms at 10,000 messages.
func BenchmarkRequestBody(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		req := &ChatRequest{Messages: longConversation(b, n)}
		for _, sent := range []bool{true, false} {
			m := testModel(b, OpenAISendReasoning(sent))
			b.Run(fmt.Sprintf("messages=%d/reasoning=%t", n, sent), func(b *testing.B) {
				for b.Loop() {
					if _, err := m.requestBody(req, "m", adaptation{}, true); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
