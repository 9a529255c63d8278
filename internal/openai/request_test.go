package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// list is a conversation.
type list []*Message

func (l list) Len() int          { return len(l) }
func (l list) At(i int) *Message { return l[i] }

// longConversation returns n messages.
func longConversation(n int) []*Message {
	messages := make([]*Message, 0, n)
	add := func(format string, args ...any) {
		messages = append(messages, NewMessage(fmt.Appendf(nil, format, args...)))
	}
	add(`{"role":"system","content":"You are Pygent."}`)
	add(`{"role":"user","content":"Go on."}`)
	for i := 0; len(messages) < n; i++ {
		add(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"bash","arguments":"{\"cmd\":\"go test ./...\"}"}}],"reasoning_content":"Let me see what the tests say."}`, i)
		add(`{"role":"tool","content":"$ go test ./...\n%s","tool_call_id":"call_%d"}`, strings.Repeat(`ok\n`, 100), i)
	}
	return messages[:n]
}

func testClient(tb testing.TB, c Config) *Client {
	tb.Helper()
	c.Key = "sk-test"
	client, err := New(c)
	require.NoError(tb, err)
	return client
}

func TestRequestBodyBeginsWithThatOfTheStepBefore(t *testing.T) {
	messages := longConversation(50)
	messages = append(messages, NewMessage([]byte(`{"role":"user","content":"And now?"}`)), NewMessage([]byte(`{"role":"assistant","content":"This."}`)))
	tools := []Tool{{Name: "bash", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "stop"}}
	for _, api := range []Protocol{Chat, Responses} {
		for _, a := range []adaptation{{}, {bridged: map[string]bool{roleTool: true}, shortIDs: true, left: images}} {
			m := testClient(t, Config{Protocol: api, Extra: map[string]any{"temperature": 0.5, "user": "u"}, MaxTokens: 100, SendReasoning: true})
			var before []byte
			for n := 2; n <= len(messages); n++ {
				made, err := m.requestBody(&Request{Messages: list(messages[:n]), Tools: tools}, "m", a, true)
				require.NoError(t, err)
				body, err := io.ReadAll(made.open())
				require.NoError(t, err)
				require.Len(t, body, made.size)
				require.True(t, json.Valid(body))
				require.True(t, strings.HasPrefix(string(body), strings.TrimSuffix(string(before), "]}")))
				before = body
			}
		}
	}
}

func TestMessagesInAnotherShapeAreEncodedOnce(t *testing.T) {
	for _, m := range []*Client{testClient(t, Config{}), testClient(t, Config{Protocol: Responses, SendReasoning: true})} {
		messages := longConversation(3)
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
	messages := longConversation(3)
	reasons := testClient(t, Config{SendReasoning: true}).shape("m", adaptation{})
	sent, err := reasons.encode(messages[2])
	require.NoError(t, err)
	require.Same(t, &messages[2].json[0], &sent[0])
}

// BenchmarkRequestBody should take at most 4 ms for 10,000 messages.
func BenchmarkRequestBody(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		req := &Request{Messages: list(longConversation(n))}
		for _, sent := range []bool{true, false} {
			m := testClient(b, Config{SendReasoning: sent})
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
