package pygenttest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// twoCalls is an answer that every quirk changes.
func twoCalls() pygenttest.Reply {
	return pygenttest.TextAndCalls("Some text first.",
		pygenttest.Call("bash", map[string]any{"cmd": "a rather long command"}),
		pygenttest.Call("bash", map[string]any{"cmd": "ls"})).
		WithUsage(pygent.Usage{PromptTokens: 10, CompletionTokens: 100})
}

func TestEveryQuirkChangesTheAnswer(t *testing.T) {
	reply := twoCalls().WithCallIDs("a", "b").WithReasoning("Two are needed.")
	s := pygenttest.NewServer(t, reply)
	_, _, healthy, err := answer(t, s, usageBody)
	require.NoError(t, err)
	seen := map[string]pygenttest.Quirk{}
	for _, q := range pygenttest.Quirks() {
		s := pygenttest.NewServer(t, reply.WithQuirks(q))
		_, _, text, err := answer(t, s, usageBody)
		require.NoError(t, err)
		require.NotEqual(t, healthy, text, q)
		require.NotContains(t, seen, text, q)
		seen[text] = q
	}
}

func TestQuirksOfStreams(t *testing.T) {
	get := func(t *testing.T, q pygenttest.Quirk, body string) (text string, chunks []chunk) {
		t.Helper()
		s := pygenttest.NewServer(t, twoCalls().WithQuirks(q))
		_, _, text, err := answer(t, s, body)
		require.NoError(t, err)
		for _, e := range events(t, text) {
			if e != "[DONE]" {
				chunks = append(chunks, decode(t, e))
			}
		}
		return text, chunks
	}
	t.Run("repeated name", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkRepeatedName, streamBody)
		require.Contains(t, assemble(t, chunks).names[0], "bashbash")
	})
	for _, q := range []pygenttest.Quirk{pygenttest.QuirkNoIndex, pygenttest.QuirkSameIndex, pygenttest.QuirkObjectArguments} {
		t.Run(string(q), func(t *testing.T) {
			_, chunks := get(t, q, streamBody)
			var ids []string
			for _, c := range chunks {
				for _, call := range c.Choices[0].Delta.ToolCalls {
					require.Equal(t, q == pygenttest.QuirkNoIndex, call.Index == nil)
					require.Equal(t, q == pygenttest.QuirkObjectArguments, call.Function.Arguments[0] == '{')
					ids = append(ids, call.ID)
				}
			}
			require.Equal(t, []string{"call_1", "call_2"}, ids)
		})
	}
	t.Run("changing id", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkChangingID, streamBody)
		require.NotEqual(t, chunks[1].ID, chunks[2].ID)
	})
	t.Run("cumulative usage", func(t *testing.T) {
		for _, body := range []string{streamBody, usageBody} {
			_, chunks := get(t, pygenttest.QuirkCumulativeUsage, body)
			var last int64
			for _, c := range chunks {
				require.GreaterOrEqual(t, c.Usage.CompletionTokens, last)
				last = c.Usage.CompletionTokens
			}
			require.Equal(t, int64(100), last)
		}
	})
	t.Run("trailing chunk", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkTrailingChunk, streamBody)
		require.NotNil(t, chunks[len(chunks)-2].Choices[0].FinishReason)
		require.Nil(t, chunks[len(chunks)-1].Choices[0].FinishReason)
	})
	t.Run("no done", func(t *testing.T) {
		text, chunks := get(t, pygenttest.QuirkNoDone, streamBody)
		require.NotContains(t, text, "[DONE]")
		require.Equal(t, chat.FinishToolCalls, assemble(t, chunks).finish)
	})
	t.Run("no finish reason", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkNoFinishReason, streamBody)
		require.Empty(t, assemble(t, chunks).finish)
	})
	t.Run("no choices", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkNoChoices, streamBody)
		require.NotEmpty(t, chunks)
		for _, c := range chunks {
			require.Empty(t, c.Choices)
		}
	})
	t.Run("keep alive", func(t *testing.T) {
		text, chunks := get(t, pygenttest.QuirkKeepAlive, streamBody)
		require.True(t, strings.HasPrefix(text, ": keep-alive\n\ndata: "))
		require.Equal(t, chat.FinishToolCalls, assemble(t, chunks).finish)
	})
	t.Run("null fields", func(t *testing.T) {
		text, _ := get(t, pygenttest.QuirkNullFields, streamBody)
		require.Contains(t, text, `"tool_calls":null`)
	})
	t.Run("one chunk", func(t *testing.T) {
		_, chunks := get(t, pygenttest.QuirkOneChunk, streamBody)
		require.Len(t, chunks, 1)
		require.Equal(t, chat.FinishToolCalls, *chunks[0].Choices[0].FinishReason)
	})
}

func TestQuirksOfPlainAnswers(t *testing.T) {
	get := func(q pygenttest.Quirk) (string, chunk) {
		s := pygenttest.NewServer(t, twoCalls().WithQuirks(q))
		_, _, text, err := answer(t, s, plainBody)
		require.NoError(t, err)
		return text, decode(t, text)
	}
	text, c := get(pygenttest.QuirkObjectArguments)
	require.Contains(t, text, `"arguments":{"cmd":"ls"}`)
	require.Equal(t, `{"cmd":"ls"}`, c.Choices[0].Message.ToolCalls[1].Arguments)
	_, c = get(pygenttest.QuirkNoChoices)
	require.Empty(t, c.Choices)
	_, c = get(pygenttest.QuirkNoFinishReason)
	require.Nil(t, c.Choices[0].FinishReason)
	text, c = get(pygenttest.QuirkUnknownFields)
	require.Contains(t, c.Choices[0].Message.Extra, "reasoning_details")
	require.Contains(t, text, `"provider"`)
}

func TestQuirksOfMessagesWorkWithoutAServer(t *testing.T) {
	tests := map[pygenttest.Quirk]func(*testing.T, *pygent.ChatResponse){
		pygenttest.QuirkNoCallIDs: func(t *testing.T, r *pygent.ChatResponse) {
			require.Empty(t, r.Message.ToolCalls[0].ID)
		},
		pygenttest.QuirkDuplicateCallIDs: func(t *testing.T, r *pygent.ChatResponse) {
			require.Equal(t, r.Message.ToolCalls[0].ID, r.Message.ToolCalls[1].ID)
		},
		pygenttest.QuirkInvalidArguments: func(t *testing.T, r *pygent.ChatResponse) {
			require.False(t, json.Valid([]byte(r.Message.ToolCalls[1].Arguments)))
		},
		pygenttest.QuirkContentFilter: func(t *testing.T, r *pygent.ChatResponse) {
			require.Equal(t, chat.FinishFilter, r.FinishReason)
			require.Empty(t, r.Message.Content)
		},
		pygenttest.QuirkCallsAsText: func(t *testing.T, r *pygent.ChatResponse) {
			require.Empty(t, r.Message.ToolCalls)
			require.Contains(t, r.Message.Content, `{"name": "bash", "arguments": {"cmd":"ls"}}`)
			require.Equal(t, chat.FinishStop, r.FinishReason)
		},
		pygenttest.QuirkFinishStop: func(t *testing.T, r *pygent.ChatResponse) {
			require.Len(t, r.Message.ToolCalls, 2)
			require.Equal(t, chat.FinishStop, r.FinishReason)
		},
		pygenttest.QuirkUnknownFields: func(t *testing.T, r *pygent.ChatResponse) {
			require.Contains(t, r.Message.Extra, "reasoning_content")
		},
	}
	for q, check := range tests {
		t.Run(string(q), func(t *testing.T) {
			m := pygenttest.NewScriptedModel(twoCalls().WithQuirks(q), twoCalls())
			resp, err := m.Chat(t.Context(), ask("hi"))
			require.NoError(t, err)
			check(t, resp)
			healthy, err := m.Chat(t.Context(), ask("hi"))
			require.NoError(t, err)
			require.Equal(t, "Some text first.", healthy.Message.Content)
			require.Empty(t, healthy.Message.Extra)
		})
	}
}
