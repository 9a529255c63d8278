package pygenttest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestCheckConversation(t *testing.T) {
	call := func(ids ...string) pygent.Message {
		var calls []pygent.ToolCall
		for _, id := range ids {
			calls = append(calls, pygent.ToolCall{ID: id, Name: "f", Arguments: "{}"})
		}
		return chat.AssistantMessage("", calls...)
	}
	user, result := chat.UserMessage("hi"), chat.ToolMessage
	tests := map[string]struct {
		messages []pygent.Message
		want     string
	}{
		"legal":           {[]pygent.Message{user, call("a", "b"), result("b", ""), result("a", ""), user}, ""},
		"id used again":   {[]pygent.Message{user, call("a"), result("a", ""), call("a"), result("a", "")}, ""},
		"empty":           {nil, "empty"},
		"no result":       {[]pygent.Message{user, call("a")}, "have no result"},
		"late result":     {[]pygent.Message{user, call("a"), user, result("a", "")}, "messages[2]"},
		"result of none":  {[]pygent.Message{user, result("a", "")}, "do not call"},
		"result twice":    {[]pygent.Message{user, call("a"), result("a", ""), result("a", "")}, "do not call"},
		"no id":           {[]pygent.Message{user, call("")}, "no id"},
		"same id":         {[]pygent.Message{user, call("a", "a")}, `two tool calls have the id "a"`},
		"only one answer": {[]pygent.Message{user, call("a", "b"), result("a", "")}, `["b"] have no result`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := pygenttest.CheckConversation(tt.messages)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}
