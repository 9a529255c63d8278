package pygent_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// sample is a small conversation with everything that a history can hold.
func sample() []pygent.Message {
	return []pygent.Message{
		pygent.SystemMessage("You are a test."),
		pygent.UserMessage("Line one\nand “two” <b>&\u2028 ]\n]\n"),
		pygent.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: "bash", Arguments: `{"cmd":"ls"}`}),
		pygent.ToolMessage("c1", "$ ls\nfile\n"),
		{
			Role: pygent.RoleAssistant, Content: "One file.",
			Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"I count."`)},
		},
		{Role: pygent.RoleUser, Parts: []pygent.Part{{Text: "And this?"}, {ImageURL: "data:image/png;base64,AA=="}}},
	}
}

func openHistory(t testing.TB, path string) *pygent.History {
	t.Helper()
	h, err := pygent.OpenHistory(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestHistoryKeepsWhatIsAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "dir", "history.json")
	h := openHistory(t, path)
	var said []pygent.Message
	for _, m := range sample() {
		said = append(said, m)
		require.NoError(t, h.Append(m))

		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.JSONEq(t, jsonOf(t, said), string(data), "the file is whole after every append")
		require.Equal(t, jsonOf(t, said), jsonOf(t, h.Messages()))
	}
	require.Equal(t, len(said), h.Len())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close(), "closing again does nothing")
	require.ErrorIs(t, h.Append(pygent.UserMessage("late")), pygent.ErrHistoryClosed)
	require.ErrorIs(t, h.SetSystem("late"), pygent.ErrHistoryClosed)

	h = openHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, jsonOf(t, said), jsonOf(t, h.Messages()))
	require.Equal(t, jsonOf(t, said), jsonOf(t, h.Conversation()))
}

func TestHistoryFileIsPrivateAndAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "history.json")
	h := openHistory(t, path)
	require.NoError(t, h.Append(sample()...))
	require.NoError(t, h.SetSystem("Another."))
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, h.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "neither lock nor temporary file stays behind")
}

func TestHistoryOfPythonPygentLoads(t *testing.T) {
	t.Parallel()
	for _, indent := range []string{"", "  "} {
		fixture, err := os.ReadFile(filepath.Join("testdata", "history", "python.json"))
		require.NoError(t, err)
		var messages []any
		require.NoError(t, json.Unmarshal(fixture, &messages))
		if indent == "" {
			fixture = []byte(jsonOf(t, messages))
		}
		path := filepath.Join(t.TempDir(), "history.json")
		writeFile(t, path, string(fixture)+"\n  \n\n\t  ")

		h := openHistory(t, path)
		require.Empty(t, h.Repairs())
		require.Equal(t, len(messages), h.Len())
		require.NoError(t, legal(h.Conversation()))
		require.NotContains(t, jsonOf(t, h.Conversation()), "function_call", "null fields are not sent")
		require.Equal(t, `{"cmd": "ls | wc -l"}`, h.Messages()[2].ToolCalls[0].Arguments)

		require.NoError(t, h.Append(pygent.UserMessage("x")))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		want := append(messages, map[string]any{"role": "user", "content": "x"})
		require.JSONEq(t, jsonOf(t, want), string(data), "what was there is not touched")
	}
}

func TestPythonReadsHistory(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	path := filepath.Join(t.TempDir(), "history.json")
	h := openHistory(t, path)
	require.NoError(t, h.Append(sample()...))
	const program = `import json, sys
h = json.load(open(sys.argv[1], encoding="utf-8"))
assert isinstance(h, list) and h[0]["role"] == "system"
call = h[2]["tool_calls"][0]
assert h[2]["content"] is None and call["type"] == "function"
assert json.loads(call["function"]["arguments"]) == {"cmd": "ls"}
assert h[3]["tool_call_id"] == call["id"]
`
	out, err := exec.Command(python, "-c", program, path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestOpenHistoryLeavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"an object":               `{"role":"user","content":"x"}`,
		"numbers":                 `[1, 2, 3]`,
		"other objects":           `[{"name": "x"}, {"name": "y"}]`,
		"other objects, cut off":  `[{"name": "x"}, {"na`,
		"another object, cut off": `[{"na`,
		"other roles, cut off":    `[{"role":"admin","name":"x"}, {"na`,
		"a message and a number":  `[{"role":"user","content":"x"}, 5]`,
		"a role that is a number": `[{"role":5,"content":"x"}]`,
		"an array and more":       `[] []`,
		"text":                    "dear diary\n",
		"binary":                  "\x7fELF\x02\x01\x01\x00\x00",
		"binary in an array":      "[\x00\x01\x02",
		"a bracket too many":      "]",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "history.json")
			writeFile(t, path, content)
			_, err := pygent.OpenHistory(path)
			require.ErrorIs(t, err, pygent.ErrNotHistory)
			require.ErrorContains(t, err, path)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, string(data))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
	_, err := pygent.OpenHistory(t.TempDir())
	require.ErrorIs(t, err, pygent.ErrNotHistory, "a directory")
}

// What a person gave is named, and not the lock beside it.
func TestAHistoryWhereNoFileCanBeNamesItsPath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	_, err := pygent.OpenHistory("/proc/pygent-test")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open history /proc/pygent-test: no lock can be made beside it: ")
	require.NotContains(t, err.Error(), ".lock")
}

func TestHistoryIsOpenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "history.json")
	h := openHistory(t, path)
	_, err := pygent.OpenHistory(path)
	require.ErrorIs(t, err, pygent.ErrHistoryInUse)
	require.ErrorContains(t, err, path)
	if runtime.GOOS == "linux" {
		require.ErrorContains(t, err, path+": the file is in use by this process")
	}

	link := filepath.Join(dir, "link.json")
	require.NoError(t, os.Symlink(path, link))
	_, err = pygent.OpenHistory(link)
	require.ErrorIs(t, err, pygent.ErrHistoryInUse, "by another name")

	require.NoError(t, h.SetSystem("x"), "the lock outlives a replacement of the file")
	_, err = pygent.OpenHistory(path)
	require.ErrorIs(t, err, pygent.ErrHistoryInUse)

	require.NoError(t, h.Close())
	openHistory(t, link)
}

func TestHistoryLockHasOneHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	const each, workers = 25, 4
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for done := 0; done < each; {
				h, err := pygent.OpenHistory(path)
				if err != nil {
					continue // another process has it open
				}
				if h.Append(pygent.UserMessage("x")) == nil {
					done++
				}
				if h.Close() != nil {
					return
				}
			}
		})
	}
	group.Wait()
	h := openHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, each*workers, h.Len())
}

func TestSetSystem(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			h := pygent.NewHistory()
			path := filepath.Join(t.TempDir(), "history.json")
			if durable {
				h = openHistory(t, path)
			}
			require.NoError(t, h.SetSystem(""))
			require.Zero(t, h.Len())
			require.NoError(t, h.Append(pygent.UserMessage("hello")))
			before := h.Conversation()

			require.NoError(t, h.SetSystem("one"))
			one, oneAll := h.Conversation(), h.Messages()
			require.NoError(t, h.SetSystem("two"))
			require.NoError(t, h.Append(pygent.UserMessage("more")))

			require.Equal(t, `[{"role":"user","content":"hello"}]`, jsonOf(t, before))
			const withOne = `[{"role":"system","content":"one"},{"role":"user","content":"hello"}]`
			require.Equal(t, withOne, jsonOf(t, one))
			require.Equal(t, withOne, jsonOf(t, oneAll))
			const withTwo = `[{"role":"system","content":"two"},{"role":"user","content":"hello"},{"role":"user","content":"more"}]`
			require.Equal(t, withTwo, jsonOf(t, h.Conversation()))
			require.Equal(t, withTwo, jsonOf(t, h.Messages()))
			if durable {
				require.NoError(t, h.Close())
				h = openHistory(t, path)
				require.Equal(t, withTwo, jsonOf(t, h.Messages()))
			}
			require.NoError(t, h.SetSystem(""))
			require.Equal(t, 2, h.Len())
		})
	}
}

func TestSetSystemOfTheSameTextWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := openHistory(t, path)
	require.NoError(t, h.Append(sample()...))
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, h.SetSystem(sample()[0].Content))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.ModTime(), after.ModTime())
}

func TestHistoryRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	bad := map[string]pygent.Message{
		"no role":      {Content: "x"},
		"broken extra": {Role: pygent.RoleUser, Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}},
		"role twice":   {Role: pygent.RoleUser, Extra: map[string]json.RawMessage{"role": json.RawMessage(`5`)}},
		"call's id twice": pygent.AssistantMessage("", pygent.ToolCall{
			ID: "a", Extra: map[string]json.RawMessage{"id": json.RawMessage(`5`)},
		}),
	}
	for name, m := range bad {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.json")
			h := openHistory(t, path)
			require.Error(t, h.Append(pygent.UserMessage("good"), m))
			require.Zero(t, h.Len(), "all or nothing")

			memory := pygent.NewHistory(pygent.UserMessage("good"), m)
			require.Equal(t, 1, memory.Len())
			require.Len(t, memory.Repairs(), 1)
		})
	}
}

func TestHistoryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	h := openHistory(t, filepath.Join(t.TempDir(), "history.json"))
	const workers, each = 4, 50
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				_ = h.Append(pygent.UserMessage(fmt.Sprint(w, i)))
				_ = h.SetSystem(fmt.Sprint(i / 25))
				_ = append(h.Messages(), pygent.UserMessage("not mine"))
				for _, m := range h.Conversation() {
					_ = len(m.Content)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, workers*each+1, h.Len())
	require.NotContains(t, jsonOf(t, h.Messages()), "not mine")
}

// TestConversationIsStable takes views of a long conversation at every moment.
// Each must be, byte for byte, the beginning of all later ones.
func TestConversationIsStable(t *testing.T) {
	t.Parallel()
	h := pygent.NewHistory(pygent.SystemMessage("s"))
	var views [][]pygent.Message
	var texts []string
	for i := range 40 {
		require.NoError(t, h.Append(
			pygent.UserMessage(fmt.Sprint("question ", i)),
			pygent.AssistantMessage("", pygent.ToolCall{Name: "bash", Arguments: "{broken"}, pygent.ToolCall{ID: "same", Name: "bash"}),
		))
		if i%3 == 0 {
			require.NoError(t, h.Append(pygent.ToolMessage("same", "late first")))
		}
		view := h.Conversation()
		views, texts = append(views, view), append(texts, jsonOf(t, view))
		require.NoError(t, h.Append(pygent.ToolMessage("", "too late"), pygent.AssistantMessage("ok")))
	}
	last := strings.TrimSuffix(jsonOf(t, h.Conversation()), "]")
	for i, view := range views {
		require.Equal(t, texts[i], jsonOf(t, view), "a view does not change")
		require.True(t, strings.HasPrefix(last, strings.TrimSuffix(texts[i], "]")), "view %d is a prefix", i)
	}
}

func BenchmarkHistoryAppend(b *testing.B) {
	m := pygent.UserMessage(strings.Repeat("a line of a tool's result\n", 40))
	for _, kind := range []string{"memory", "file"} {
		for _, length := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("%s/messages=%d", kind, length), func(b *testing.B) {
				h := pygent.NewHistory()
				if kind == "file" {
					h = openHistory(b, filepath.Join(b.TempDir(), "history.json"))
				}
				require.NoError(b, h.Append(slices.Repeat([]pygent.Message{m}, length)...))
				b.ReportAllocs()
				for b.Loop() {
					if err := h.Append(m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
