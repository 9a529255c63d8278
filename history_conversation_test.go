package pygent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// legal returns what a strict provider would reject in a conversation.
func legal(msgs []pygent.Message) error {
	ids := map[string]bool{}
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		switch {
		case m.Role == pygent.RoleTool:
			return fmt.Errorf("message %d: a result without a call", i)
		case m.ToolCallID != "":
			return fmt.Errorf("message %d: answers a call but is no result", i)
		case m.Role != pygent.RoleAssistant && len(m.ToolCalls) > 0:
			return fmt.Errorf("message %d: only an assistant calls tools", i)
		case strings.TrimSpace(m.Text()) == "" && len(m.Parts) == 0 && len(m.ToolCalls) == 0:
			return fmt.Errorf("message %d: it is empty", i)
		}
		for n, call := range m.ToolCalls {
			if err := legalCall(call, ids); err != nil {
				return fmt.Errorf("message %d: call %d: %w", i, n, err)
			}
			if i+1+n >= len(msgs) {
				return fmt.Errorf("message %d: call %d has no result", i, n)
			}
			switch result := msgs[i+1+n]; {
			case result.Role != pygent.RoleTool || result.ToolCallID != call.ID:
				return fmt.Errorf("message %d: call %d is not answered in its place", i, n)
			case result.Parts != nil:
				return fmt.Errorf("message %d: the result is more than text", i+1+n)
			}
		}
		i += len(m.ToolCalls)
	}
	return nil
}

func legalCall(call pygent.ToolCall, ids map[string]bool) error {
	var object map[string]json.RawMessage
	switch {
	case call.ID == "" || ids[call.ID]:
		return fmt.Errorf("its id %q is empty or taken", call.ID)
	case call.Name == "" || len(call.Name) > 64 || strings.Trim(call.Name, nameCharacters) != "":
		return fmt.Errorf("its name %q is illegal", call.Name)
	case json.Unmarshal([]byte(call.Arguments), &object) != nil || object == nil:
		return errors.New("its arguments are no object")
	}
	ids[call.ID] = true
	return nil
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func call(id string) pygent.ToolCall {
	return pygent.ToolCall{ID: id, Name: "bash", Arguments: `{"cmd":"` + id + `"}`}
}

func TestConversationIsLegal(t *testing.T) {
	t.Parallel()
	const interrupted = "interrupted; it may have taken effect"
	user, assistant, result := pygent.UserMessage, pygent.AssistantMessage, pygent.ToolMessage
	image := pygent.Part{ImageURL: "data:image/png;base64,AA=="}
	type messages = []pygent.Message
	tests := map[string]struct{ said, want messages }{
		"a good one is not touched": {
			said: messages{pygent.SystemMessage("s"), user("q"), assistant("so", call("a"), call("b")), result("a", "A"), result("b", "B"), assistant("done")},
			want: messages{pygent.SystemMessage("s"), user("q"), assistant("so", call("a"), call("b")), result("a", "A"), result("b", "B"), assistant("done")},
		},
		"trailing calls are answered": {
			said: messages{user("q"), assistant("", call("a"), call("b"))},
			want: messages{user("q"), assistant("", call("a"), call("b")), result("a", interrupted), result("b", interrupted)},
		},
		"a missing result is put in its place": {
			said: messages{assistant("", call("a"), call("b")), result("b", "B"), user("q")},
			want: messages{assistant("", call("a"), call("b")), result("a", interrupted), result("b", "B"), user("q")},
		},
		"results stand in the order of calls": {
			said: messages{assistant("", call("a"), call("b")), result("b", "B"), result("a", "A")},
			want: messages{assistant("", call("a"), call("b")), result("a", "A"), result("b", "B")},
		},
		"results of no call are left out": {
			said: messages{result("x", "X"), user("q"), result("y", "Y"), assistant("", call("a")), result("z", "Z"), result("a", "A"), result("a", "again")},
			want: messages{user("q"), assistant("", call("a")), result("a", "A")},
		},
		"a second result of an open exchange is left out": {
			said: messages{assistant("", call("a"), call("b")), result("a", "A"), result("a", "again"), result("b", "B")},
			want: messages{assistant("", call("a"), call("b")), result("a", "A"), result("b", "B")},
		},
		"empty and repeated ids are replaced": {
			said: messages{
				assistant("", call("a"), pygent.ToolCall{Name: "bash", Arguments: "{}"}, call("a")), result("a", "1"), result("a", "3"), result("", "2"),
				assistant("", call("a")), result("a", "4"),
			},
			want: messages{
				assistant("", call("a"), pygent.ToolCall{ID: "call00001", Name: "bash", Arguments: "{}"}, pygent.ToolCall{ID: "call00002", Name: "bash", Arguments: `{"cmd":"a"}`}),
				result("a", "1"), result("call00001", "2"), result("call00002", "3"),
				assistant("", pygent.ToolCall{ID: "call00003", Name: "bash", Arguments: `{"cmd":"a"}`}), result("call00003", "4"),
			},
		},
		"a real id that looks like a made one": {
			said: messages{assistant("", call("call00001"), pygent.ToolCall{Name: "bash", Arguments: "{}"})},
			want: messages{
				assistant("", call("call00001"), pygent.ToolCall{ID: "call00002", Name: "bash", Arguments: "{}"}),
				result("call00001", interrupted), result("call00002", interrupted),
			},
		},
		"arguments that are no object": {
			said: messages{assistant("",
				pygent.ToolCall{ID: "a", Name: "bash", Arguments: `{"cmd":`},
				pygent.ToolCall{ID: "b", Name: "bash"},
				pygent.ToolCall{ID: "c", Name: "bash", Arguments: `[1]`},
				pygent.ToolCall{ID: "d", Name: "bash", Arguments: " {} "}),
				result("a", "A"), result("b", "B"), result("c", "C"), result("d", "D")},
			want: messages{assistant("",
				pygent.ToolCall{ID: "a", Name: "bash", Arguments: `{}`},
				pygent.ToolCall{ID: "b", Name: "bash", Arguments: `{}`},
				pygent.ToolCall{ID: "c", Name: "bash", Arguments: `{}`},
				pygent.ToolCall{ID: "d", Name: "bash", Arguments: " {} "}),
				result("a", "A"), result("b", "B"), result("c", "C"), result("d", "D")},
		},
		"names no provider takes": {
			said: messages{assistant("", pygent.ToolCall{ID: "a", Arguments: "{}"}, pygent.ToolCall{ID: "b", Name: "fetch.é", Arguments: "{}"}, pygent.ToolCall{ID: "c", Name: "functions.bash<|channel|>commentary", Arguments: "{'cmd': 'ls',}"}), result("a", ""), result("b", ""), result("c", "")},
			want: messages{assistant("", pygent.ToolCall{ID: "a", Name: "unnamed", Arguments: "{}"}, pygent.ToolCall{ID: "b", Name: "_", Arguments: "{}"}, pygent.ToolCall{ID: "c", Name: "bash", Arguments: `{"cmd":"ls"}`}), result("a", ""), result("b", ""), result("c", "")},
		},
		"images follow all results": {
			said: messages{assistant("", call("a"), call("b")),
				{Role: pygent.RoleTool, ToolCallID: "a", Parts: []pygent.Part{{Text: "see"}, image}},
				{Role: pygent.RoleTool, ToolCallID: "b", Parts: []pygent.Part{image}}, assistant("ok")},
			want: messages{assistant("", call("a"), call("b")), result("a", "see"), result("b", "The images follow."),
				{Role: pygent.RoleUser, Parts: []pygent.Part{
					{Text: "Images in the result of bash (a):"}, image,
					{Text: "Images in the result of bash (b):"}, image,
				}}, assistant("ok")},
		},
		"empty assistant messages are left out": {
			said: messages{user("q"), assistant(" \n"), assistant("", call("a")), assistant(""), result("a", "A")},
			want: messages{user("q"), assistant("", call("a")), result("a", "A")},
		},
		"messages that say nothing are left out": {
			said: messages{pygent.SystemMessage(" "), user(""), user("q"), {Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "\n"}}},
				assistant(" \n", call("a")), result("a", ""), user("\t"), assistant("ok"), pygent.SystemMessage("")},
			want: messages{user("q"), assistant("", call("a")), result("a", ""), assistant("ok")},
		},
		"a message of an image alone says something": {
			said: messages{{Role: pygent.RoleUser, Parts: []pygent.Part{image}}},
			want: messages{{Role: pygent.RoleUser, Parts: []pygent.Part{image}}},
		},
		"a refusal is not empty": {
			said: messages{{Role: pygent.RoleAssistant, Extra: map[string]json.RawMessage{"refusal": json.RawMessage(`"no"`), "audio": json.RawMessage(`null`)}}},
			want: messages{{Role: pygent.RoleAssistant, Extra: map[string]json.RawMessage{"refusal": json.RawMessage(`"no"`)}}},
		},
		"later system messages are kept": {
			said: messages{pygent.SystemMessage("1"), user("q"), pygent.SystemMessage("2")},
			want: messages{pygent.SystemMessage("1"), user("q"), pygent.SystemMessage("2")},
		},
		"calls and answers of the wrong roles": {
			said: messages{{Role: pygent.RoleUser, Content: "q", ToolCalls: []pygent.ToolCall{call("a")}, ToolCallID: "b"}},
			want: messages{user("q")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := pygent.NewHistory(tt.said...)
			require.Equal(t, jsonOf(t, tt.said), jsonOf(t, h.Messages()), "the record stays as it was said")
			if name != "a refusal is not empty" {
				require.NoError(t, legal(h.Conversation()))
			}
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Conversation()))
		})
	}
}

// randomConversation turns bytes into messages of every kind that a history may
// get.
func randomConversation(script []byte) []pygent.Message {
	ids := []string{"a", "b", "c", "call00001", ""}
	arguments := []string{`{}`, `{"x":1}`, `{`, ``, `null`, `[{}]`, `{}{}`}
	names := []string{"bash", "", "a b", strings.Repeat("n", 70), "\xff"}
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	var msgs []pygent.Message
	for len(script) > 0 {
		switch next() % 8 {
		case 0:
			msgs = append(msgs, pygent.UserMessage("u"))
		case 1:
			msgs = append(msgs, pygent.SystemMessage("s"))
		case 2:
			msgs = append(msgs, pygent.AssistantMessage(" "))
		case 3, 4:
			m := pygent.AssistantMessage("")
			for range next() % 4 {
				m.ToolCalls = append(m.ToolCalls, pygent.ToolCall{
					ID: ids[next()%len(ids)], Name: names[next()%len(names)], Arguments: arguments[next()%len(arguments)],
				})
			}
			msgs = append(msgs, m)
		case 5:
			msgs = append(msgs, pygent.Message{
				Role: pygent.RoleTool, ToolCallID: ids[next()%len(ids)],
				Parts: []pygent.Part{{ImageURL: "data:image/png;base64,AA=="}, {Text: "t"}},
			})
		default:
			msgs = append(msgs, pygent.ToolMessage(ids[next()%len(ids)], "r"))
		}
	}
	return msgs
}

func FuzzConversationIsLegal(f *testing.F) {
	f.Add([]byte{0, 3, 2, 0, 0, 0, 1, 0, 1, 6, 0, 6, 1}, byte(3))
	f.Add([]byte{3, 3, 4, 0, 2, 4, 1, 3, 0, 2, 4, 6, 4, 5, 0, 7, 4, 2, 1}, byte(0))
	f.Add([]byte{5, 0, 3, 1, 3, 0, 0, 0, 6, 3, 3, 1, 3, 3, 3}, byte(1))
	f.Fuzz(func(t *testing.T, script []byte, every byte) {
		msgs := randomConversation(script)
		h := pygent.NewHistory()
		var handedOut [][]byte // the JSON of every message that was returned in a view
		for i, m := range msgs {
			require.NoError(t, h.Append(m))
			if i%(int(every)+1) != 0 && i != len(msgs)-1 {
				continue
			}
			view := h.Conversation()
			require.NoError(t, legal(view))
			for n, m := range view {
				b, err := json.Marshal(m)
				require.NoError(t, err)
				if n < len(handedOut) {
					require.Equal(t, handedOut[n], b)
				} else {
					handedOut = append(handedOut, b)
				}
			}
		}
		require.Len(t, h.Messages(), len(msgs))
	})
}

// Half a character that one server sent would have another one refuse the conversation.
func TestAMessageIsTextForEveryServer(t *testing.T) {
	var m pygent.Message
	require.NoError(t, json.Unmarshal([]byte(`{"role":"assistant","content":[{"type":"odd","v":"a\ud83d"}],"reasoning_content":"b\ud83d\ude00",`+
		`"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"},"extra":"\ude00d"}]}`), &m))
	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	for _, kept := range []string{`"a\ufffd"`, `"b\ud83d\ude00"`, `"\ufffdd"`} {
		require.Contains(t, string(encoded), kept)
	}
}
