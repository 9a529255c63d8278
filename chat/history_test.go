package chat_test

import (
	"context"
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
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

// sample is a small conversation with everything that a history can hold.
func sample() []chat.Message {
	return []chat.Message{
		chat.SystemMessage("You are a test."),
		chat.UserMessage("Line one\nand “two” <b>&\u2028 ]\n]\n"),
		chat.AssistantMessage("", chat.ToolCall{ID: "c1", Name: "bash", Arguments: `{"cmd":"ls"}`}),
		chat.ToolMessage("c1", "$ ls\nfile\n"),
		{
			Role: chat.RoleAssistant, Content: "One file.",
			Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"I count."`)},
		},
		{Role: chat.RoleUser, Parts: []chat.Part{{Text: "And this?"}, {ImageURL: "data:image/png;base64,AA=="}}},
	}
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestHistoryKeepsWhatIsAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "dir", "history.json")
	h := testkit.OpenHistory(t, path)
	var said []chat.Message
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
	require.ErrorIs(t, h.Append(chat.UserMessage("late")), chat.ErrHistoryClosed)
	require.ErrorIs(t, h.SetSystem("late"), chat.ErrHistoryClosed)

	h = testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, jsonOf(t, said), jsonOf(t, h.Messages()))
	require.Equal(t, jsonOf(t, said), jsonOf(t, h.Conversation()))
}

func TestHistoryFileIsPrivateAndAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "history.json")
	h := testkit.OpenHistory(t, path)
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

		h := testkit.OpenHistory(t, path)
		require.Empty(t, h.Repairs())
		require.Equal(t, len(messages), h.Len())
		require.NoError(t, testkit.CheckStrictly(h.Conversation()))
		require.NotContains(t, jsonOf(t, h.Conversation()), "function_call", "null fields are not sent")
		require.Equal(t, `{"cmd": "ls | wc -l"}`, h.Messages()[2].ToolCalls[0].Arguments)

		require.NoError(t, h.Append(chat.UserMessage("x")))
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
	h := testkit.OpenHistory(t, path)
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
			_, err := chat.OpenHistory(path)
			require.ErrorIs(t, err, chat.ErrNotHistory)
			require.ErrorContains(t, err, path)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, string(data))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
	_, err := chat.OpenHistory(t.TempDir())
	require.ErrorIs(t, err, chat.ErrNotHistory, "a directory")
}

// What a person gave is named, and not the lock beside it.
func TestAHistoryWhereNoFileCanBeNamesItsPath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	_, err := chat.OpenHistory("/proc/pygent-test")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open history /proc/pygent-test: no lock can be made beside it: ")
	require.NotContains(t, err.Error(), ".lock")
}

func TestHistoryIsOpenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "history.json")
	h := testkit.OpenHistory(t, path)
	_, err := chat.OpenHistory(path)
	require.ErrorIs(t, err, chat.ErrHistoryInUse)
	require.ErrorContains(t, err, path)
	if runtime.GOOS == "linux" {
		require.ErrorContains(t, err, path+": the file is in use by this process")
	}

	link := filepath.Join(dir, "link.json")
	require.NoError(t, os.Symlink(path, link))
	_, err = chat.OpenHistory(link)
	require.ErrorIs(t, err, chat.ErrHistoryInUse, "by another name")

	require.NoError(t, h.SetSystem("x"), "the lock outlives a replacement of the file")
	_, err = chat.OpenHistory(path)
	require.ErrorIs(t, err, chat.ErrHistoryInUse)

	require.NoError(t, h.Close())
	testkit.OpenHistory(t, link)
}

func TestHistoryLockHasOneHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	const each, workers = 25, 4
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for done := 0; done < each; {
				h, err := chat.OpenHistory(path)
				if err != nil {
					continue // another process has it open
				}
				if h.Append(chat.UserMessage("x")) == nil {
					done++
				}
				if h.Close() != nil {
					return
				}
			}
		})
	}
	group.Wait()
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, each*workers, h.Len())
}

func TestSetSystem(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			h := chat.NewHistory()
			path := filepath.Join(t.TempDir(), "history.json")
			if durable {
				h = testkit.OpenHistory(t, path)
			}
			require.NoError(t, h.SetSystem(""))
			require.Zero(t, h.Len())
			require.NoError(t, h.Append(chat.UserMessage("hello")))
			before := h.Conversation()

			require.NoError(t, h.SetSystem("one"))
			one, oneAll := h.Conversation(), h.Messages()
			require.NoError(t, h.SetSystem("two"))
			require.NoError(t, h.Append(chat.UserMessage("more")))

			require.Equal(t, `[{"role":"user","content":"hello"}]`, jsonOf(t, before))
			const withOne = `[{"role":"system","content":"one"},{"role":"user","content":"hello"}]`
			require.Equal(t, withOne, jsonOf(t, one))
			require.Equal(t, withOne, jsonOf(t, oneAll))
			const withTwo = `[{"role":"system","content":"two"},{"role":"user","content":"hello"},{"role":"user","content":"more"}]`
			require.Equal(t, withTwo, jsonOf(t, h.Conversation()))
			require.Equal(t, withTwo, jsonOf(t, h.Messages()))
			if durable {
				require.NoError(t, h.Close())
				h = testkit.OpenHistory(t, path)
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
	h := testkit.OpenHistory(t, path)
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
	bad := map[string]chat.Message{
		"no role":      {Content: "x"},
		"broken extra": {Role: chat.RoleUser, Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}},
		"role twice":   {Role: chat.RoleUser, Extra: map[string]json.RawMessage{"role": json.RawMessage(`5`)}},
		"call's id twice": chat.AssistantMessage("", chat.ToolCall{
			ID: "a", Extra: map[string]json.RawMessage{"id": json.RawMessage(`5`)},
		}),
	}
	for name, m := range bad {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.json")
			h := testkit.OpenHistory(t, path)
			require.Error(t, h.Append(chat.UserMessage("good"), m))
			require.Zero(t, h.Len(), "all or nothing")

			memory := chat.NewHistory(chat.UserMessage("good"), m)
			require.Equal(t, 1, memory.Len())
			require.Len(t, memory.Repairs(), 1)
		})
	}
}

func TestHistoryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	h := testkit.OpenHistory(t, filepath.Join(t.TempDir(), "history.json"))
	const workers, each = 4, 50
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				_ = h.Append(chat.UserMessage(fmt.Sprint(w, i)))
				_ = h.SetSystem(fmt.Sprint(i / 25))
				_ = append(h.Messages(), chat.UserMessage("not mine"))
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
	h := chat.NewHistory(chat.SystemMessage("s"))
	var views [][]chat.Message
	var texts []string
	for i := range 40 {
		require.NoError(t, h.Append(
			chat.UserMessage(fmt.Sprint("question ", i)),
			chat.AssistantMessage("", chat.ToolCall{Name: "bash", Arguments: "{broken"}, chat.ToolCall{ID: "same", Name: "bash"}),
		))
		if i%3 == 0 {
			require.NoError(t, h.Append(chat.ToolMessage("same", "late first")))
		}
		view := h.Conversation()
		views, texts = append(views, view), append(texts, jsonOf(t, view))
		require.NoError(t, h.Append(chat.ToolMessage("", "too late"), chat.AssistantMessage("ok")))
	}
	last := strings.TrimSuffix(jsonOf(t, h.Conversation()), "]")
	for i, view := range views {
		require.Equal(t, texts[i], jsonOf(t, view), "a view does not change")
		require.True(t, strings.HasPrefix(last, strings.TrimSuffix(texts[i], "]")), "view %d is a prefix", i)
	}
}

func BenchmarkHistoryAppend(b *testing.B) {
	m := chat.UserMessage(strings.Repeat("a line of a tool's result\n", 40))
	for _, kind := range []string{"memory", "file"} {
		for _, length := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("%s/messages=%d", kind, length), func(b *testing.B) {
				h := chat.NewHistory()
				if kind == "file" {
					h = testkit.OpenHistory(b, filepath.Join(b.TempDir(), "history.json"))
				}
				require.NoError(b, h.Append(slices.Repeat([]chat.Message{m}, length)...))
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

// TestChangedFileIsLeftAlone lets another process change the file of a history
// before each kind of write.
func TestChangedFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	const foreign = `[{"role":"user","content":"somebody else's"}]`
	const sameSize = "[\n{\"role\":\"system\",\"content\":\"S\"},\n{\"role\":\"user\",\"content\":\"ONE\"}\n]\n"
	changes := map[string]struct {
		do   func(t *testing.T, path string)
		left string // the expected content of the file; "" for our own
	}{
		"replaced": {func(t *testing.T, path string) {
			writeFile(t, path+".new", foreign)
			require.NoError(t, os.Rename(path+".new", path))
		}, foreign},
		"replaced by as many bytes": {func(t *testing.T, path string) {
			writeFile(t, path+".new", sameSize)
			require.NoError(t, os.Rename(path+".new", path))
		}, sameSize},
		"written over":  {func(t *testing.T, path string) { writeFile(t, path, foreign) }, foreign},
		"cut off":       {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5)) }, "[\n{\"r"},
		"removed":       {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, ""},
		"removed, with": {func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) }, ""},
	}
	ours := map[string]struct {
		do   func(h *chat.History) error
		want []chat.Message
	}{
		"append": {
			func(h *chat.History) error { return h.Append(chat.UserMessage("two")) },
			[]chat.Message{chat.SystemMessage("s"), chat.UserMessage("one"), chat.UserMessage("two")},
		},
		"system message": {
			func(h *chat.History) error { return h.SetSystem("t") },
			[]chat.Message{chat.SystemMessage("t"), chat.UserMessage("one")},
		},
		"sync":  {(*chat.History).Sync, []chat.Message{chat.SystemMessage("s"), chat.UserMessage("one")}},
		"close": {(*chat.History).Close, []chat.Message{chat.SystemMessage("s"), chat.UserMessage("one")}},
	}
	for change, foreign := range changes {
		for name, our := range ours {
			t.Run(change+", then "+name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "dir", "history.json")
				h := testkit.OpenHistory(t, path)
				require.NoError(t, h.Append(chat.SystemMessage("s"), chat.UserMessage("one")))
				foreign.do(t, path)
				require.NoError(t, our.do(h))
				require.Len(t, h.Repairs(), 1, "it is said")
				require.Equal(t, jsonOf(t, our.want), jsonOf(t, h.Messages()))

				kept := path
				if foreign.left != "" {
					data, err := os.ReadFile(path)
					require.NoError(t, err)
					require.Equal(t, foreign.left, string(data), "the file of the other one is not touched")
					continued, err := filepath.Glob(path + ".continued-*")
					require.NoError(t, err)
					require.Len(t, continued, 1)
					kept = continued[0]
					require.Contains(t, h.Repairs()[0], kept)
				}
				want := our.want
				if name != "close" {
					want = append(want[:len(want):len(want)], chat.UserMessage("three"))
					require.NoError(t, h.Append(want[len(want)-1]))
					require.NoError(t, h.SetSystem("last"))
					want[0] = chat.SystemMessage("last")
					require.NoError(t, h.Close())
				}
				require.Len(t, h.Repairs(), 1, "once")
				again := testkit.OpenHistory(t, kept)
				require.Empty(t, again.Repairs())
				require.Equal(t, jsonOf(t, want), jsonOf(t, again.Messages()))
			})
		}
	}
}

func TestChangedFileOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.NoError(t, h.Append(chat.UserMessage("one")))
	disk.Write("/h.json", []byte("something else"))
	disk.SetRoom(3)
	err = h.Append(chat.UserMessage("two"))
	require.ErrorIs(t, err, chat.ErrHistoryChanged)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, map[string]string{"/h.json": "something else"}, disk.Names())
	disk.SetRoom(-1)
	require.NoError(t, h.Append(chat.UserMessage("three")))
	require.NoError(t, h.Close())
	require.Equal(t, "something else", disk.Names()["/h.json"])
	found := false
	for name, content := range disk.Names() {
		if strings.Contains(name, ".continued-") {
			found = true
			require.JSONEq(t, jsonOf(t, []chat.Message{chat.UserMessage("one"), chat.UserMessage("two"), chat.UserMessage("three")}), content)
		}
	}
	require.True(t, found)
}

// After a failed write of our own, the file does not look as if others had
// changed it.
func TestOwnFailureIsNoForeignChange(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.NoError(t, h.Append(chat.UserMessage("one")))
	for failing := range 8 {
		disk.OffAfter(failing / 2) // fail at each of: the write, the truncation, the closing bracket
		disk.SetRoom(10 * (failing % 2))
		_ = h.Append(chat.UserMessage("more"))
		disk.OffAfter(-1)
		disk.SetRoom(-1)
		require.NoError(t, h.Append(chat.UserMessage("and")))
		require.Empty(t, h.Repairs())
		require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	}
	require.NoError(t, disk.Link("/h.json", "/alias"), "the lock on the old file must not be in the way")
	for failing := range 8 {
		disk.OffAfter(failing) // the same for a replacement of the file
		_ = h.SetSystem(strings.Repeat("s", failing+1))
		_ = h.Append(chat.UserMessage("more"))
		disk.OffAfter(-1)
		require.NoError(t, h.Append(chat.UserMessage("and")))
		require.Empty(t, h.Repairs())
		require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	}
	require.NoError(t, h.Close())
}

func TestAgentTellsThatItsHistoryWasReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	var warnings []string
	model := pygenttest.NewScriptedModel(
		pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			writeFile(t, path, "mine now")
			return pygenttest.Text("one")
		}), pygenttest.Text("two"))
	agent := newAgent(t, model, pygent.WithHistoryFile(path), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], path+".continued-")
	_, err = agent.Step(t.Context(), "go on")
	require.NoError(t, err)
	require.Len(t, warnings, 1)
}

func TestAgentTellsThatItsHistoryWasReplacedAfterItsLastRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	warnings := make(chan string, 10)
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("one")), pygent.WithHistoryFile(path), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings <- e.Text
		}
	}))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	writeFile(t, path, "mine now")
	require.NoError(t, agent.Close())
	require.Len(t, warnings, 1)
	require.Contains(t, <-warnings, path+".continued-")
}

func TestRunOnAFullDiskSaysSoOnce(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("one"), pygenttest.Text("two")), pygent.WithHistory(h))
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)

	disk.SetRoom(0)
	result, err := agent.RunUntilStop(t.Context(), "go on")
	require.EqualError(t, err, "append to history: write /h.json: no space left on device")
	require.Equal(t, err.Error(), result.Reason)

	disk.SetRoom(-1)
	_, err = agent.Step(t.Context(), "and on")
	require.NoError(t, err)
	require.NoError(t, h.Close())
	require.JSONEq(t, jsonOf(t, h.Messages()), disk.Names()["/h.json"])
	require.Contains(t, disk.Names()["/h.json"], `"go on"`)
}

func TestSystemMessageOnAFullDiskIsSaidOnce(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	disk.SetRoom(100)
	agent := newAgent(t, pygenttest.NewScriptedModel(), pygent.WithHistory(h))
	_, err = agent.Step(t.Context(), "go")
	require.EqualError(t, err, "set system message: write /h.json.tmp: no space left on device")
}

func TestHistoryIsOpenOnceUnderAllNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, hard, soft, both := filepath.Join(dir, "h.json"), filepath.Join(dir, "hard.json"), filepath.Join(dir, "soft.json"), filepath.Join(dir, "both.json")
	h := testkit.OpenHistory(t, path)
	require.NoError(t, h.Append(chat.UserMessage("one")))
	require.NoError(t, os.Link(path, hard))
	require.NoError(t, os.Symlink("h.json", soft))
	require.NoError(t, os.Symlink("hard.json", both))
	inUse := func() {
		t.Helper()
		for _, name := range []string{path, hard, soft, both} {
			_, err := chat.OpenHistory(name)
			require.ErrorIs(t, err, chat.ErrHistoryInUse, name)
			require.NoFileExists(t, hard+".lock")
		}
	}
	inUse()
	if runtime.GOOS != "windows" {
		require.NoError(t, h.SetSystem("the file is another one now"))
		inUse()
		require.NoError(t, h.SetSystem("and again"))
		inUse()
	}
	require.NoError(t, h.Close())
	for _, name := range []string{path, hard, soft, both} {
		require.NoError(t, testkit.OpenHistory(t, name).Close())
	}
}

// A link may point to a file that does not exist yet.
func TestHistoryBehindADanglingLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link.json"), filepath.Join(dir, "file.json")
	require.NoError(t, os.Symlink("file.json", link))
	h := testkit.OpenHistory(t, link)
	require.NoError(t, h.Append(chat.UserMessage("one")))
	require.NoError(t, h.SetSystem("s"))
	require.NoError(t, h.Close())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type(), "the link is still one")
	require.Equal(t, 2, testkit.OpenHistory(t, file).Len())
}

func TestErrorsOfOpeningNameThePathOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "h.json", "x.json")
	writeFile(t, filepath.Join(dir, "h.json"), "a file")
	_, err := chat.OpenHistory(path)
	require.Error(t, err)
	_, err = chat.OpenHistory(filepath.Join(dir, "h.json"))
	require.EqualError(t, err, "open history "+filepath.Join(dir, "h.json")+": not a history of chat messages: no JSON array")
}

const (
	awaySteps  = 90
	awayResult = 30_000
)

func awayText(n int) string {
	return fmt.Sprintf("part %d\n", n) + strings.Repeat(fmt.Sprintf("%08d é\n", n), awayResult/12)
}

// longHistory is the history in a file of a run of so many steps whose results are
// 30 kB each, in a small window. during is called at each step.
func longHistory(t *testing.T, path string, steps int, during func(n int)) *chat.History {
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	n := 0
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		if strings.HasPrefix(req.Messages[len(req.Messages)-1].Text(), "<record>") {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("The work so far is summed up here.")}, nil
		}
		if n++; n > steps {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("", chat.ToolCall{ID: "s", Name: "stop", Arguments: "{}"})}, nil
		}
		during(n)
		call := chat.ToolCall{ID: fmt.Sprint("c", n), Name: "read", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
		return &pygent.ChatResponse{Message: chat.AssistantMessage("I go on.", call)}, nil
	})
	read := pygent.NewTool("read", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (string, error) {
		return awayText(in.N), nil
	})
	agent := newAgentOn(t, nowhere{}, model, pygent.WithHistory(h), pygent.WithTools(read), pygent.WithContextWindow(40_000))
	result, err := agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(steps+1), pygent.MaxToolCalls(steps+1))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	return h
}

// requireWhole checks that every result is in the record as it was said.
func requireWhole(t *testing.T, msgs []chat.Message, steps int) {
	t.Helper()
	n := 0
	for _, m := range msgs {
		if m.Role == chat.RoleTool && strings.HasPrefix(m.Content, "part ") {
			n++
			require.True(t, strings.HasPrefix(m.Content, awayText(n)), "result %d is whole", n) // a note on the limits may follow
		}
	}
	require.Equal(t, steps, n)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return mem.HeapAlloc
}

func replaceFile(t *testing.T, path string) {
	require.NoError(t, os.WriteFile(path+".other", []byte("[]\n"), 0o600))
	require.NoError(t, os.Rename(path+".other", path))
}

// A history that is closed still answers when its file is gone.
func TestOldTextsOfAClosedHistoryWithoutItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := longHistory(t, path, awaySteps/3, func(int) {})
	n := h.Len()
	require.NoError(t, h.Close())
	require.NoError(t, os.Remove(path))
	for range 2 {
		require.Len(t, h.Messages(), n)
		require.Len(t, h.Repairs(), 1)
		require.Contains(t, h.Repairs()[0], "old messages are no longer in the file")
	}
}
