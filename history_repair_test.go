package pygent_test

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
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/pygenttest"
)

// layouts are the ways in which programs format an array of messages.
var layouts = map[string]func(testing.TB, []pygent.Message) []byte{
	"one a line": func(t testing.TB, msgs []pygent.Message) []byte {
		data, _ := fileOf(t, msgs)
		return data
	},
	"one line": func(t testing.TB, msgs []pygent.Message) []byte {
		return []byte(strings.ReplaceAll(jsonOf(t, msgs), `},{"role"`, `}, {"role"`))
	},
	"indented": func(t testing.TB, msgs []pygent.Message) []byte {
		data, err := json.MarshalIndent(msgs, "", "  ")
		require.NoError(t, err)
		return data
	},
	"indented with tabs, content first": func(t testing.TB, msgs []pygent.Message) []byte {
		var objects []map[string]any // encoded with sorted keys
		require.NoError(t, json.Unmarshal([]byte(jsonOf(t, msgs)), &objects))
		data, err := json.MarshalIndent(objects, "", "\t")
		require.NoError(t, err)
		return append(data, '\n')
	},
}

// tricky is a conversation whose messages contain text that looks like other
// messages.
func tricky() []pygent.Message {
	fake := json.RawMessage(`[{"role":"user","content":"fake"},{"role":"user","content":"fake"}]`)
	return append(sample(),
		pygent.UserMessage(`}, {"role":"user","content":"fake"}]`),
		pygent.Message{Role: pygent.RoleAssistant, Content: "a", Extra: map[string]json.RawMessage{"alternatives": fake}},
		pygent.UserMessage("z\n{\"role\":\"user\"}"),
		pygent.AssistantMessage("the last"),
	)
}

// TestLostBracketsCostOneMessage removes the two brackets at the end of each
// message that has them. Without them the message seems to contain all the
// later ones.
func TestLostBracketsCostOneMessage(t *testing.T) {
	t.Parallel()
	msgs := append(sample(), pygent.UserMessage(`}, {"role":"user","content":"fake"}]`), pygent.AssistantMessage("the last"))
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
func checkDamaged(t *testing.T, torn []byte, msgs []pygent.Message, lose int) {
	t.Helper()
	disk := memdisk.New()
	disk.Write("/h.json", torn)
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
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
	require.NoError(t, legal(h.Conversation()))
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
	again, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.Empty(t, again.Repairs(), "repaired once and for all")
	require.Equal(t, jsonOf(t, h.Messages()), jsonOf(t, again.Messages()))
}

// canonical returns the JSON of a message with its fields sorted.
func canonical(t *testing.T, m pygent.Message) string {
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
	without := func(i int) []pygent.Message { return append(msgs[:i:i], msgs[i+1:]...) }
	for name, tt := range map[string]struct {
		data []byte
		want []pygent.Message
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
			h := openHistory(t, path)
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
			require.NoError(t, h.Close())
			kept, err := os.ReadFile(keptOf(t, path)[0])
			require.NoError(t, err)
			require.Equal(t, tt.data, kept)
			h = openHistory(t, path)
			require.Empty(t, h.Repairs(), "repaired once and for all")
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
		})
	}
}

func TestOneZeroedLineOfManyCostsOneMessage(t *testing.T) {
	t.Parallel()
	var msgs []pygent.Message
	for i := range 101 {
		msgs = append(msgs, pygent.UserMessage(fmt.Sprint("message ", i)))
	}
	data, ends := fileOf(t, msgs)
	copy(data[ends[17]+2:ends[18]], make([]byte, 100))
	path := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	h := openHistory(t, path)
	require.Equal(t, jsonOf(t, append(msgs[:18:18], msgs[19:]...)), jsonOf(t, h.Messages()))
	require.Len(t, h.Repairs(), 2)
	require.Contains(t, h.Repairs()[0], "after message 18")
}

// After a damaged part, only what is certainly a message counts as one.
func TestUnknownRoleBehindDamageIsNoMessage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, `[{"role":"user","content":"x"}, {?}, {"role":"admin","content":"who"}, {"role":"user","content":"y"}]`)
	h := openHistory(t, path)
	require.Equal(t, `[{"role":"user","content":"x"},{"role":"user","content":"y"}]`, jsonOf(t, h.Messages()))
}

// What remains of a damaged exchange is a legal conversation, also in the file.
func TestDamagedExchangeStaysLegal(t *testing.T) {
	t.Parallel()
	user, assistant, result := pygent.UserMessage, pygent.AssistantMessage, pygent.ToolMessage
	image := pygent.Part{ImageURL: "data:image/png;base64,AA=="}
	const lost = "this result is lost: the file of the conversation was damaged; the call may have taken effect"
	const orphan = "The file of the conversation was damaged here: the call of this tool is lost. Its result was:\n"
	type messages = []pygent.Message
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
			messages{user("q"), assistant("", call("a"), call("b")), result("a", "A"), {Role: pygent.RoleTool, ToolCallID: "b", Parts: []pygent.Part{{Text: "B"}, image}}, assistant("done")}, 1,
			messages{user("q"), {Role: pygent.RoleUser, Parts: []pygent.Part{{Text: orphan + "A"}}}, {Role: pygent.RoleUser, Parts: []pygent.Part{{Text: orphan + "B"}, image}}, assistant("done")},
		},
		"calls after open ones": {
			messages{assistant("", call("a"), call("b")), result("a", "A"), assistant("", call("c")), result("c", "C"), assistant("done")}, 2,
			messages{assistant("", call("a"), call("b")), result("a", "A"), result("b", lost), {Role: pygent.RoleUser, Parts: []pygent.Part{{Text: orphan + "C"}}}, assistant("done")},
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
			h := openHistory(t, path)
			require.Equal(t, jsonOf(t, tt.want), jsonOf(t, h.Messages()))
			require.NoError(t, legal(h.Conversation()))
			require.NoError(t, h.Close())
			h = openHistory(t, path)
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
	writeFile(t, path, jsonOf(t, []pygent.Message{
		pygent.UserMessage("q"), pygent.AssistantMessage("", call("a"), call("a")), pygent.ToolMessage("a", "A"), pygent.AssistantMessage(""),
		pygent.UserMessage("go on"), pygent.AssistantMessage("", call("open")),
	}))
	h := openHistory(t, path)
	require.Len(t, h.Repairs(), 1)
	require.Empty(t, keptOf(t, path), "nothing was lost")
	require.Equal(t, "interrupted; it may have taken effect", h.Messages()[4].Content)
	require.Equal(t, "open", h.Messages()[6].ToolCalls[0].ID, "a run can be resumed there")
	require.Equal(t, 7, h.Len())
	require.NoError(t, h.Close())
	require.Empty(t, openHistory(t, path).Repairs())
}

func TestRunAnswersOpenCallsInTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, jsonOf(t, []pygent.Message{pygent.UserMessage("q"), pygent.AssistantMessage("", call("a"), call("b")), pygent.ToolMessage("a", "A")}))
	agent, err := pygent.New(pygent.WithHistoryFile(path), pygent.WithDocker(pygent.DockerNever),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("ok"))))
	require.NoError(t, err)
	_, err = agent.Step(t.Context(), "go on")
	require.NoError(t, err)
	require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
	require.NoError(t, agent.Close())
	h := openHistory(t, path)
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
	h := openHistory(t, path)
	require.Len(t, h.Repairs(), 1)
	require.Contains(t, h.Repairs()[0], "byte order mark")
	require.Equal(t, jsonOf(t, sample()), jsonOf(t, h.Messages()))
	requirePythonReads(t, path)
	require.NoError(t, h.Close())
	require.Empty(t, openHistory(t, path).Repairs())
	require.Empty(t, keptOf(t, path))
}

func TestBytesThatAreNoTextAreReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	writeFile(t, path, `[{"role":"user","content":"a`+"\xff"+`b","x":["`+"\xfe"+`"]},{"role":"user","content":"c"}]`)
	h := openHistory(t, path)
	require.Contains(t, h.Repairs()[0], "message 1")
	require.Equal(t, "a\ufffdb", h.Messages()[0].Content)
	require.NoError(t, h.Append(pygent.Message{Role: pygent.RoleUser, Extra: map[string]json.RawMessage{"x": json.RawMessage("\"\xff\"")}}))
	requirePythonReads(t, path)
	require.NoError(t, h.Close())
	require.Empty(t, openHistory(t, path).Repairs())
	require.Len(t, keptOf(t, path), 1)
}

func TestRepairedFileIsReadByPython(t *testing.T) {
	t.Parallel()
	data, ends := fileOf(t, sample())
	copy(data[ends[1]+4:], "\x00\x00")
	path := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	openHistory(t, path)
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
	h := openHistory(t, path)
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
