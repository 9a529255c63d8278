package chat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

func call(id string) chat.ToolCall {
	return chat.ToolCall{ID: id, Name: "bash", Arguments: `{"cmd":"` + id + `"}`}
}

func TestConversationIsLegal(t *testing.T) {
	t.Parallel()
	const interrupted = "interrupted; it may have taken effect"
	user, assistant, result := chat.UserMessage, chat.AssistantMessage, chat.ToolMessage
	image := chat.Part{ImageURL: "data:image/png;base64,AA=="}
	type messages = []chat.Message
	tests := map[string]struct{ said, want messages }{
		"a good one is not touched": {
			said: messages{chat.SystemMessage("s"), user("q"), assistant("so", call("a"), call("b")), result("a", "A"), result("b", "B"), assistant("done")},
			want: messages{chat.SystemMessage("s"), user("q"), assistant("so", call("a"), call("b")), result("a", "A"), result("b", "B"), assistant("done")},
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
				assistant("", call("a"), chat.ToolCall{Name: "bash", Arguments: "{}"}, call("a")), result("a", "1"), result("a", "3"), result("", "2"),
				assistant("", call("a")), result("a", "4"),
			},
			want: messages{
				assistant("", call("a"), chat.ToolCall{ID: "call00001", Name: "bash", Arguments: "{}"}, chat.ToolCall{ID: "call00002", Name: "bash", Arguments: `{"cmd":"a"}`}),
				result("a", "1"), result("call00001", "2"), result("call00002", "3"),
				assistant("", chat.ToolCall{ID: "call00003", Name: "bash", Arguments: `{"cmd":"a"}`}), result("call00003", "4"),
			},
		},
		"a real id that looks like a made one": {
			said: messages{assistant("", call("call00001"), chat.ToolCall{Name: "bash", Arguments: "{}"})},
			want: messages{
				assistant("", call("call00001"), chat.ToolCall{ID: "call00002", Name: "bash", Arguments: "{}"}),
				result("call00001", interrupted), result("call00002", interrupted),
			},
		},
		"arguments that are no object": {
			said: messages{assistant("",
				chat.ToolCall{ID: "a", Name: "bash", Arguments: `{"cmd":`},
				chat.ToolCall{ID: "b", Name: "bash"},
				chat.ToolCall{ID: "c", Name: "bash", Arguments: `[1]`},
				chat.ToolCall{ID: "d", Name: "bash", Arguments: " {} "}),
				result("a", "A"), result("b", "B"), result("c", "C"), result("d", "D")},
			want: messages{assistant("",
				chat.ToolCall{ID: "a", Name: "bash", Arguments: `{}`},
				chat.ToolCall{ID: "b", Name: "bash", Arguments: `{}`},
				chat.ToolCall{ID: "c", Name: "bash", Arguments: `{}`},
				chat.ToolCall{ID: "d", Name: "bash", Arguments: " {} "}),
				result("a", "A"), result("b", "B"), result("c", "C"), result("d", "D")},
		},
		"names no provider takes": {
			said: messages{assistant("", chat.ToolCall{ID: "a", Arguments: "{}"}, chat.ToolCall{ID: "b", Name: "fetch.é", Arguments: "{}"}, chat.ToolCall{ID: "c", Name: "functions.bash<|channel|>commentary", Arguments: "{'cmd': 'ls',}"}), result("a", ""), result("b", ""), result("c", "")},
			want: messages{assistant("", chat.ToolCall{ID: "a", Name: "unnamed", Arguments: "{}"}, chat.ToolCall{ID: "b", Name: "_", Arguments: "{}"}, chat.ToolCall{ID: "c", Name: "bash", Arguments: `{"cmd":"ls"}`}), result("a", ""), result("b", ""), result("c", "")},
		},
		"images follow all results": {
			said: messages{assistant("", call("a"), call("b")),
				{Role: chat.RoleTool, ToolCallID: "a", Parts: []chat.Part{{Text: "see"}, image}},
				{Role: chat.RoleTool, ToolCallID: "b", Parts: []chat.Part{image}}, assistant("ok")},
			want: messages{assistant("", call("a"), call("b")), result("a", "see"), result("b", "The images follow."),
				{Role: chat.RoleUser, Parts: []chat.Part{
					{Text: "Images in the result of bash (a):"}, image,
					{Text: "Images in the result of bash (b):"}, image,
				}}, assistant("ok")},
		},
		"empty assistant messages are left out": {
			said: messages{user("q"), assistant(" \n"), assistant("", call("a")), assistant(""), result("a", "A")},
			want: messages{user("q"), assistant("", call("a")), result("a", "A")},
		},
		"messages that say nothing are left out": {
			said: messages{chat.SystemMessage(" "), user(""), user("q"), {Role: chat.RoleUser, Parts: []chat.Part{{Text: "\n"}}},
				assistant(" \n", call("a")), result("a", ""), user("\t"), assistant("ok"), chat.SystemMessage("")},
			want: messages{user("q"), assistant("", call("a")), result("a", ""), assistant("ok")},
		},
		"a message of an image alone says something": {
			said: messages{{Role: chat.RoleUser, Parts: []chat.Part{image}}},
			want: messages{{Role: chat.RoleUser, Parts: []chat.Part{image}}},
		},
		"a refusal is not empty": {
			said: messages{{Role: chat.RoleAssistant, Extra: map[string]json.RawMessage{"refusal": json.RawMessage(`"no"`), "audio": json.RawMessage(`null`)}}},
			want: messages{{Role: chat.RoleAssistant, Extra: map[string]json.RawMessage{"refusal": json.RawMessage(`"no"`)}}},
		},
		"later system messages are kept": {
			said: messages{chat.SystemMessage("1"), user("q"), chat.SystemMessage("2")},
			want: messages{chat.SystemMessage("1"), user("q"), chat.SystemMessage("2")},
		},
		"calls and answers of the wrong roles": {
			said: messages{{Role: chat.RoleUser, Content: "q", ToolCalls: []chat.ToolCall{call("a")}, ToolCallID: "b"}},
			want: messages{user("q")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := chat.NewHistory(tt.said...)
			require.Equal(t, jsonOf(t, tt.said), jsonOf(t, h.Messages()), "the record stays as it was said")
			if name != "a refusal is not empty" {
				require.NoError(t, testkit.CheckStrictly(h.Conversation()))
			}
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Conversation()))
		})
	}
}

// randomConversation turns bytes into messages of every kind that a history may
// get.
func randomConversation(script []byte) []chat.Message {
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
	var msgs []chat.Message
	for len(script) > 0 {
		switch next() % 8 {
		case 0:
			msgs = append(msgs, chat.UserMessage("u"))
		case 1:
			msgs = append(msgs, chat.SystemMessage("s"))
		case 2:
			msgs = append(msgs, chat.AssistantMessage(" "))
		case 3, 4:
			m := chat.AssistantMessage("")
			for range next() % 4 {
				m.ToolCalls = append(m.ToolCalls, chat.ToolCall{
					ID: ids[next()%len(ids)], Name: names[next()%len(names)], Arguments: arguments[next()%len(arguments)],
				})
			}
			msgs = append(msgs, m)
		case 5:
			msgs = append(msgs, chat.Message{
				Role: chat.RoleTool, ToolCallID: ids[next()%len(ids)],
				Parts: []chat.Part{{ImageURL: "data:image/png;base64,AA=="}, {Text: "t"}},
			})
		default:
			msgs = append(msgs, chat.ToolMessage(ids[next()%len(ids)], "r"))
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
		h := chat.NewHistory()
		var handedOut [][]byte // the JSON of every message that was returned in a view
		for i, m := range msgs {
			require.NoError(t, h.Append(m))
			if i%(int(every)+1) != 0 && i != len(msgs)-1 {
				continue
			}
			view := h.Conversation()
			require.NoError(t, testkit.CheckStrictly(view))
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
	var m chat.Message
	require.NoError(t, json.Unmarshal([]byte(`{"role":"assistant","content":[{"type":"odd","v":"a\ud83d"}],"reasoning_content":"b\ud83d\ude00",`+
		`"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"},"extra":"\ude00d"}]}`), &m))
	encoded, err := json.Marshal(m)
	require.NoError(t, err)
	for _, kept := range []string{`"a\ufffd"`, `"b\ud83d\ude00"`, `"\ufffdd"`} {
		require.Contains(t, string(encoded), kept)
	}
}

// layouts are the ways in which programs format an array of messages.
var layouts = map[string]func(testing.TB, []chat.Message) []byte{
	"one a line": func(t testing.TB, msgs []chat.Message) []byte {
		data, _ := fileOf(t, msgs)
		return data
	},
	"one line": func(t testing.TB, msgs []chat.Message) []byte {
		return []byte(strings.ReplaceAll(jsonOf(t, msgs), `},{"role"`, `}, {"role"`))
	},
	"indented": func(t testing.TB, msgs []chat.Message) []byte {
		data, err := json.MarshalIndent(msgs, "", "  ")
		require.NoError(t, err)
		return data
	},
	"indented with tabs, content first": func(t testing.TB, msgs []chat.Message) []byte {
		var objects []map[string]any // encoded with sorted keys
		require.NoError(t, json.Unmarshal([]byte(jsonOf(t, msgs)), &objects))
		data, err := json.MarshalIndent(objects, "", "\t")
		require.NoError(t, err)
		return append(data, '\n')
	},
}

// tricky is a conversation whose messages contain text that looks like other
// messages.
func tricky() []chat.Message {
	fake := json.RawMessage(`[{"role":"user","content":"fake"},{"role":"user","content":"fake"}]`)
	return append(sample(),
		chat.UserMessage(`}, {"role":"user","content":"fake"}]`),
		chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: map[string]json.RawMessage{"alternatives": fake}},
		chat.UserMessage("z\n{\"role\":\"user\"}"),
		chat.AssistantMessage("the last"),
	)
}

// TestLostBracketsCostOneMessage removes the two brackets at the end of each
// message that has them. Without them the message seems to contain all the
// later ones.
func TestLostBracketsCostOneMessage(t *testing.T) {
	t.Parallel()
	msgs := append(sample(), chat.UserMessage(`}, {"role":"user","content":"fake"}]`), chat.AssistantMessage("the last"))
	brackets := regexp.MustCompile(`\]\s*\}`)
	for layout, write := range layouts {
		t.Run(layout, func(t *testing.T) {
			data := write(t, msgs)
			for _, at := range brackets.FindAllIndex(data, -1) {
				torn := bytes.Clone(data)
				copy(torn[at[0]:at[1]], bytes.Repeat([]byte(" "), at[1]-at[0]))
				if !json.Valid(torn) {
					checkDamaged(t, torn, msgs, 1)
				}
			}
		})
	}
}

// checkDamaged opens a damaged file. The history must have all but at most lose
// of msgs, and no others.
func checkDamaged(t *testing.T, torn []byte, msgs []chat.Message, lose int) {
	t.Helper()
	disk := memdisk.New()
	disk.Write("/h.json", torn)
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err, "%q", torn)
	left := map[string]int{}
	for _, m := range msgs {
		left[canonical(t, m)]++
	}
	for _, m := range h.Messages() {
		text := canonical(t, m)
		if strings.Contains(text, "was damaged") {
			continue // a repair put it in the place of a lost result, or of a result that belongs to a lost call
		}
		left[text]--
		require.GreaterOrEqual(t, left[text], 0, "invented: %s\n%s\n%q", text, h.Repairs(), torn)
	}
	require.GreaterOrEqual(t, h.Len(), len(msgs)-lose, "%s\n%q", h.Repairs(), torn)
	require.NoError(t, testkit.CheckStrictly(h.Conversation()))
	require.NotEmpty(t, h.Repairs())
	require.NoError(t, h.Close())

	kept := ""
	for name, content := range disk.Names() {
		if strings.Contains(name, "damaged") {
			kept = name
			require.Equal(t, string(torn), content, "the file as it was")
		}
	}
	require.NotEmpty(t, kept, "%q", torn)
	require.Contains(t, strings.Join(h.Repairs(), "\n"), kept)
	again, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.Empty(t, again.Repairs(), "repaired once and for all")
	require.Equal(t, jsonOf(t, h.Messages()), jsonOf(t, again.Messages()))
}

// canonical returns the JSON of a message with its fields sorted.
func canonical(t *testing.T, m chat.Message) string {
	t.Helper()
	var fields any
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, m)), &fields))
	return jsonOf(t, fields)
}

func TestDamageOfManyKinds(t *testing.T) {
	t.Parallel()
	msgs := sample()
	data, ends := fileOf(t, msgs)
	damage := func(at int, with string) []byte {
		d := bytes.Clone(data)
		copy(d[at:], with)
		return d
	}
	without := func(i int) []chat.Message { return append(msgs[:i:i], msgs[i+1:]...) }
	for name, tt := range map[string]struct {
		data []byte
		want []chat.Message
	}{
		"in a message":             {damage(ends[3]+10, "\x00\x00\x00"), without(4)},
		"between messages":         {damage(ends[3], "}"), msgs},
		"zeros at the end":         {append(bytes.Clone(data[:ends[3]+5]), make([]byte, 100)...), msgs[:4]},
		"text after the end":       {append(bytes.Clone(data), "more"...), msgs},
		"a bracket for a brace":    {damage(ends[3]+2, "["), without(4)},
		"the opening bracket":      {damage(0, "\x00"), msgs},
		"the first block":          {damage(0, strings.Repeat("\x00", ends[0]+5)), msgs[2:]},
		"two places":               {append(damage(ends[0]+10, "\x00\x00")[:ends[3]+10:ends[3]+10], data[ends[3]+11:]...), append(msgs[:1:1], append(msgs[2:4:4], msgs[5:]...)...)},
		"a value that is none":     {damage(ends[3]+4, "rale"), without(4)},
		"a file put after another": {append(bytes.Clone(data), data...), append(msgs[:6:6], msgs...)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.json")
			require.NoError(t, os.WriteFile(path, tt.data, 0o600))
			h := testkit.OpenHistory(t, path)
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
			require.NoError(t, h.Close())
			kept, err := os.ReadFile(keptOf(t, path)[0])
			require.NoError(t, err)
			require.Equal(t, tt.data, kept)
			h = testkit.OpenHistory(t, path)
			require.Empty(t, h.Repairs(), "repaired once and for all")
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
		})
	}
}

func TestOneZeroedLineOfManyCostsOneMessage(t *testing.T) {
	t.Parallel()
	var msgs []chat.Message
	for i := range 101 {
		msgs = append(msgs, chat.UserMessage(fmt.Sprint("message ", i)))
	}
	data, ends := fileOf(t, msgs)
	copy(data[ends[17]+2:ends[18]], make([]byte, 100))
	path := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	h := testkit.OpenHistory(t, path)
	require.Equal(t, jsonOf(t, append(msgs[:18:18], msgs[19:]...)), jsonOf(t, h.Messages()))
	require.Len(t, h.Repairs(), 2)
	require.Contains(t, h.Repairs()[0], "after message 18")
}

// After a damaged part, only what is certainly a message counts as one.
func TestUnknownRoleBehindDamageIsNoMessage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, `[{"role":"user","content":"x"}, {?}, {"role":"admin","content":"who"}, {"role":"user","content":"y"}]`)
	h := testkit.OpenHistory(t, path)
	require.Equal(t, `[{"role":"user","content":"x"},{"role":"user","content":"y"}]`, jsonOf(t, h.Messages()))
}

// What remains of a damaged exchange is a legal conversation, also in the file.
func TestDamagedExchangeStaysLegal(t *testing.T) {
	t.Parallel()
	user, assistant, result := chat.UserMessage, chat.AssistantMessage, chat.ToolMessage
	image := chat.Part{ImageURL: "data:image/png;base64,AA=="}
	const lost = "this result is lost, because the conversation's file was damaged; the call may have taken effect"
	const orphan = "The file of the conversation was damaged here: the call of this tool is lost. Its result was:\n"
	type messages = []chat.Message
	for name, tt := range map[string]struct {
		said messages
		lose int
		want messages
	}{
		"a result": {
			messages{user("q"), assistant("", call("a"), call("b")), result("a", "A"), result("b", "B"), user("next")}, 2,
			messages{user("q"), assistant("", call("a"), call("b")), result("b", "B"), result("a", lost), user("next")},
		},
		"the calls": {
			messages{user("q"), assistant("", call("a"), call("b")), result("a", "A"), {Role: chat.RoleTool, ToolCallID: "b", Parts: []chat.Part{{Text: "B"}, image}}, assistant("done")}, 1,
			messages{user("q"), {Role: chat.RoleUser, Parts: []chat.Part{{Text: orphan + "A"}}}, {Role: chat.RoleUser, Parts: []chat.Part{{Text: orphan + "B"}, image}}, assistant("done")},
		},
		"calls after open ones": {
			messages{assistant("", call("a"), call("b")), result("a", "A"), assistant("", call("c")), result("c", "C"), assistant("done")}, 2,
			messages{assistant("", call("a"), call("b")), result("a", "A"), result("b", lost), {Role: chat.RoleUser, Parts: []chat.Part{{Text: orphan + "C"}}}, assistant("done")},
		},
		"the last result": {
			messages{user("q"), assistant("", call("a")), result("a", "A")}, 2,
			messages{user("q"), assistant("", call("a"))},
		},
		"the question": {
			messages{user("q"), assistant("", call("a")), result("a", "A"), assistant("done")}, 0,
			messages{assistant("", call("a")), result("a", "A"), assistant("done")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, ends := fileOf(t, tt.said)
			at := 2
			if tt.lose > 0 {
				at = ends[tt.lose-1] + 2
			}
			copy(data[at:], make([]byte, 10))
			path := filepath.Join(t.TempDir(), "history.json")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			h := testkit.OpenHistory(t, path)
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
			require.NoError(t, testkit.CheckStrictly(h.Conversation()))
			require.NoError(t, h.Close())
			h = testkit.OpenHistory(t, path)
			require.Empty(t, h.Repairs())
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
		})
	}
}

// If another program left calls without results, the repaired file is legal
// too.
func TestOpenCallsAreAnsweredInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, jsonOf(t, []chat.Message{
		chat.UserMessage("q"), chat.AssistantMessage("", call("a"), call("a")), chat.ToolMessage("a", "A"), chat.AssistantMessage(""),
		chat.UserMessage("go on"), chat.AssistantMessage("", call("open")),
	}))
	h := testkit.OpenHistory(t, path)
	require.Len(t, h.Repairs(), 1)
	require.Empty(t, keptOf(t, path), "nothing was lost")
	require.Equal(t, "interrupted; it may have taken effect", h.Messages()[4].Content)
	require.Equal(t, "open", h.Messages()[6].ToolCalls[0].ID, "a run can be resumed there")
	require.Equal(t, 7, h.Len())
	require.NoError(t, h.Close())
	require.Empty(t, testkit.OpenHistory(t, path).Repairs())
}

func TestRunAnswersOpenCallsInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, jsonOf(t, []chat.Message{chat.UserMessage("q"), chat.AssistantMessage("", call("a"), call("b")), chat.ToolMessage("a", "A")}))
	agent, err := pygent.New(pygent.WithHistoryFile(path), pygent.WithDocker(pygent.DockerNever),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("ok"))))
	require.NoError(t, err)
	_, err = agent.Step(t.Context(), "go on")
	require.NoError(t, err)
	require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
	require.NoError(t, agent.Close())
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.NoError(t, pygenttest.CheckConversation(h.Messages()))
}

func TestRepairsAreEventsOfTheFirstRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	data, ends := fileOf(t, sample())
	copy(data[ends[3]+4:], "\x00\x00")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	var warnings []string
	agent, err := pygent.New(pygent.WithHistoryFile(path), pygent.WithDocker(pygent.DockerNever),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("ok"), pygenttest.Text("ok"))),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventWarning {
				warnings = append(warnings, e.Text)
			}
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	for range 2 {
		_, err = agent.Step(t.Context(), "go on")
		require.NoError(t, err)
		require.Len(t, warnings, 2, "once")
	}
	for i, repair := range agent.History().Repairs() {
		require.Contains(t, warnings[i], repair)
	}
}

func TestByteOrderMarkIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, "\ufeff"+jsonOf(t, sample()))
	h := testkit.OpenHistory(t, path)
	require.Len(t, h.Repairs(), 1)
	require.Contains(t, h.Repairs()[0], "byte order mark")
	require.Equal(t, jsonOf(t, sample()), jsonOf(t, h.Messages()))
	requirePythonReads(t, path)
	require.NoError(t, h.Close())
	require.Empty(t, testkit.OpenHistory(t, path).Repairs())
	require.Empty(t, keptOf(t, path))
}

func TestBytesThatAreNoTextAreReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, `[{"role":"user","content":"a`+"\xff"+`b","x":["`+"\xfe"+`"]},{"role":"user","content":"c"}]`)
	h := testkit.OpenHistory(t, path)
	require.Contains(t, h.Repairs()[0], "message 1")
	require.Equal(t, "a\ufffdb", h.Messages()[0].Content)
	require.NoError(t, h.Append(chat.Message{Role: chat.RoleUser, Extra: map[string]json.RawMessage{"x": json.RawMessage("\"\xff\"")}}))
	requirePythonReads(t, path)
	require.NoError(t, h.Close())
	require.Empty(t, testkit.OpenHistory(t, path).Repairs())
	require.Len(t, keptOf(t, path), 1)
}

func TestRepairedFileIsReadByPython(t *testing.T) {
	t.Parallel()
	data, ends := fileOf(t, sample())
	copy(data[ends[1]+4:], "\x00\x00")
	path := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	testkit.OpenHistory(t, path)
	requirePythonReads(t, path)
}

func requirePythonReads(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, json.Valid(data))
	if python, err := exec.LookPath("python3"); err == nil {
		out, err := exec.Command(python, "-c", `import json, sys; json.load(open(sys.argv[1], encoding="utf-8"))`, path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// A user message without content, as some programs write it, stays in the
// record and is not sent.
func TestUserMessageWithoutContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, `[{"role":"system"},{"role":"user"},{"role":"user","content":null},{"role":"user","content":[]},{"role":"user","content":[{"type":"input_audio","input_audio":{}}]},{"role":"assistant","content":"a"}]`)
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, 6, h.Len())
	const sent = `{"role":"user","content":[{"type":"input_audio","input_audio":{}}]},{"role":"assistant","content":"a"}]`
	require.Equal(t, "["+sent, jsonOf(t, h.Conversation()))
	require.NoError(t, h.SetSystem("s"))
	require.Equal(t, `[{"role":"system","content":"s"},`+sent, jsonOf(t, h.Conversation()))
	require.NoError(t, h.SetSystem(" "))
	require.Equal(t, "["+sent, jsonOf(t, h.Conversation()))
	require.NoError(t, h.SetSystem("s"))
	require.Equal(t, `[{"role":"system","content":"s"},`+sent, jsonOf(t, h.Conversation()))
}
