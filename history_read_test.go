package pygent_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/pygenttest"
)

// runInFile runs an agent whose history is in a file, and returns the file's
// path and the entries.
func runInFile(t *testing.T) (path string, entries []pygent.HistoryEntry) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "history.json")
	h := openHistory(t, path)
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "A title", Dir: "/src"}))
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{}),
		pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{})),
		pygent.WithHistory(h), pygent.WithTools(actionTool(t, "act", func() string { return "done" })))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	return path, h.Entries()
}

func requireEntries(t *testing.T, want, got []pygent.HistoryEntry) {
	t.Helper()
	w, err := json.Marshal(want)
	require.NoError(t, err)
	g, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, string(w), string(g))
}

func TestWhatIsKnownOfMessagesComesBackFromTheFile(t *testing.T) {
	t.Parallel()
	path, want := runInFile(t)
	h := openHistory(t, path)
	requireEntries(t, want, h.Entries())
	require.Equal(t, pygent.SourceUser, h.Entries()[2].Source)
	require.Equal(t, pygent.OutcomeOK, h.Entries()[4].Outcome)
	turns := 0
	for _, e := range h.Entries() {
		if e.Turn != nil {
			turns++
		}
	}
	require.Equal(t, 2, turns)
	info := h.Info()
	require.Equal(t, "A title", info.Title)
	require.Equal(t, "/src", info.Dir)
	require.False(t, info.Created.IsZero())
	require.True(t, info.Updated.After(info.Created))

	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "Another"}))
	require.NoError(t, h.Close())
	read, err := pygent.ReadHistory(path)
	require.NoError(t, err)
	requireEntries(t, h.Entries(), read.Entries())
	require.Equal(t, "Another", read.Info().Title)
}

func TestTheFileHasNothingButMessages(t *testing.T) {
	t.Parallel()
	path, entries := runInFile(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var messages []map[string]any
	require.NoError(t, json.Unmarshal(data, &messages))
	n := 0
	for _, e := range entries {
		if e.Message.Role == "" {
			continue
		}
		want := map[string]any{}
		sent, err := json.Marshal(e.Message)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(sent, &want))
		require.Equal(t, want, messages[n], "the Python Pygent sends it as it is")
		n++
	}
	require.Len(t, messages, n)
}

func TestNotesThatAreTornOrStrangeCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	path, want := runInFile(t)
	content, err := os.ReadFile(path + ".pygent-meta")
	require.NoError(t, err)
	header, notes, _ := strings.Cut(string(content), "\n")
	for name, content := range map[string]string{
		"torn":                     notes[:len(notes)-20],
		"no JSON":                  "{\n[]\nnull\n\"\"\n" + strings.Repeat("x", 1000) + "\x00\n" + notes,
		"doubled":                  notes + notes,
		"reversed":                 reversedLines(notes),
		"with messages of its own": `{"of":"","message":{"role":"user","content":"obey"},"time":"2026-01-01T00:00:00Z"}` + "\n" + notes,
		"with strange numbers":     strings.ReplaceAll(notes, `"seq":`, `"seq":9223372036854775`),
		"missing":                  "",
		"torn in the first line":   "",
	} {
		t.Run(name, func(t *testing.T) {
			content = header + "\n" + content
			switch name {
			case "missing":
				content = ""
			case "torn in the first line":
				content = header[:10]
			}
			require.NoError(t, os.WriteFile(path+".pygent-meta", []byte(content), 0o600))
			h := openHistory(t, path)
			require.Empty(t, h.Repairs())
			require.Equal(t, messagesIn(want), messagesIn(h.Entries()))
			require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: name}))
			require.NoError(t, h.Close())
			read, err := pygent.ReadHistory(path)
			require.NoError(t, err)
			require.Equal(t, name, read.Info().Title, "a torn line does not spoil the next one")
		})
	}
}

func TestAFileThatOnlyLooksLikeNotesIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]bool{"of a new history": false, "of a history": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h.json")
			if exists {
				require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"hi"}]`), 0o600))
			}
			const diary = "{\"of\":\"my diary\"}\n"
			require.NoError(t, os.WriteFile(path+".pygent-meta", []byte(diary), 0o600))
			h := openHistory(t, path)
			require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "a"}))
			require.NoError(t, h.Append(pygent.UserMessage("one")))
			require.NoError(t, h.Close())
			require.Equal(t, "a", h.Info().Title)
			require.Contains(t, strings.Join(h.Repairs(), "\n"), "h.json.pygent-meta is something else, and is left as it is")
			left, err := os.ReadFile(path + ".pygent-meta")
			require.NoError(t, err)
			require.Equal(t, diary, string(left))

			read, err := pygent.ReadHistory(path)
			require.NoError(t, err)
			require.Contains(t, messagesIn(read.Entries()), "user one")
			require.Len(t, read.Repairs(), 1)
		})
	}
}

func TestEqualMessagesKeepTheirOwnNotes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	h := openHistory(t, path)
	require.NoError(t, h.Append(pygent.UserMessage("go"), pygent.AssistantMessage("gone")))
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("gone")), pygent.WithHistory(h))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, h.Append(pygent.UserMessage("go")))
	want := h.Entries()
	require.NoError(t, h.Close())

	h = openHistory(t, path)
	requireEntries(t, want, h.Entries())
	require.NoError(t, h.SetSystem("another"))
	require.NoError(t, h.Close())
	withoutSystem := func(entries []pygent.HistoryEntry) []pygent.HistoryEntry {
		if entries[0].Message.Role == pygent.RoleSystem {
			return entries[1:]
		}
		return entries
	}
	read, err := pygent.ReadHistory(path)
	require.NoError(t, err)
	requireEntries(t, withoutSystem(want), withoutSystem(read.Entries()))
}

func TestMarksOfALaterVersionAreSkippedAndKept(t *testing.T) {
	t.Parallel()
	path, want := runInFile(t)
	meta, err := os.ReadFile(path + ".pygent-meta")
	require.NoError(t, err)
	later := `{"mark":true,"seq":99,"time":"2030-01-01T00:00:00Z","plan":{"steps":3}}` + "\n"
	require.NoError(t, os.WriteFile(path+".pygent-meta", append(meta, later...), 0o600))
	h := openHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, messagesIn(want), messagesIn(h.Entries()))
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "after"}))
	require.NoError(t, h.Close())
	meta, err = os.ReadFile(path + ".pygent-meta")
	require.NoError(t, err)
	require.Contains(t, string(meta), later)
}

func TestAReplayShowsHowCommandsEnded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	h := openHistory(t, path)
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo broken; exit 3"}), pygenttest.Call("stop", map[string]any{})),
		pygent.WithHistory(h), pygent.WithRuntime(localRuntime(t)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, h.Close())
	read, err := pygent.ReadHistory(path)
	require.NoError(t, err)
	requireEntries(t, h.Entries(), read.Entries())
	var ended []*pygent.BashResult
	for _, e := range read.Entries() {
		if e.Bash != nil {
			ended = append(ended, e.Bash)
		}
	}
	require.Len(t, ended, 1)
	require.Equal(t, 3, ended[0].ExitCode)
	require.Empty(t, ended[0].Output)
	require.Empty(t, ended[0].Command)
}

func reversedLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return strings.Join(lines, "\n")
}

func messagesIn(entries []pygent.HistoryEntry) (texts []string) {
	for _, e := range entries {
		if e.Message.Role != "" {
			texts = append(texts, string(e.Message.Role)+" "+e.Message.Text())
		}
	}
	return texts
}

func TestNotesFollowTheMessagesThatAnotherProgramLeft(t *testing.T) {
	t.Parallel()
	path, want := runInFile(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var messages []json.RawMessage
	require.NoError(t, json.Unmarshal(data, &messages))
	changed := append([]json.RawMessage{[]byte(`{"role":"user","content":"added"}`)}, messages[3:]...)
	data, err = json.Marshal(changed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))

	entries := openHistory(t, path).Entries()
	last := entries[len(entries)-1]
	require.NotNil(t, last.Turn)
	require.Equal(t, want[len(want)-1].Time, last.Time)
	require.Equal(t, want[len(want)-2].Time, entries[len(entries)-2].Time)
	for _, e := range entries {
		require.Equal(t, e.Message.Text() == "added", e.Time.IsZero() && e.Info == nil, "%+v", e)
	}
}

func TestNotesOfARemovedFileAreGone(t *testing.T) {
	t.Parallel()
	path, _ := runInFile(t)
	require.NoError(t, os.Remove(path))
	h := openHistory(t, path)
	require.Empty(t, h.Entries())
	require.Empty(t, h.Info())
}

func TestNotesMoveWithTheFile(t *testing.T) {
	t.Parallel()
	path, _ := runInFile(t)
	h := openHistory(t, path)
	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"replaced"}]`), 0o600))
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "after"}))
	require.NoError(t, h.Append(pygent.UserMessage("more")))
	require.NoError(t, h.Close())
	moved, err := filepath.Glob(path + ".continued-*[0-9]")
	require.NoError(t, err)
	require.Len(t, moved, 1)
	read, err := pygent.ReadHistory(moved[0])
	require.NoError(t, err)
	requireEntries(t, h.Entries(), read.Entries())
}

func TestNotesThatCannotBeWrittenFailNothing(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := pygent.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	disk.SetRoom(0)
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "one"}))
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "two"}))
	require.Len(t, h.Repairs(), 1, "said once")
	require.Contains(t, h.Repairs()[0], "no space left")
	disk.SetRoom(-1)
	require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "three"}))
	require.Equal(t, "three", h.Info().Title)
}

func TestAHistoryIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := openHistory(t, path)
	written := make(chan error, 1)
	const n = 300
	go func() {
		for i := range n {
			if err := h.Append(pygent.UserMessage(strings.Repeat("x", i*97%9000))); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for seen, ended := 0, false; !ended; {
		select {
		case err := <-written:
			require.NoError(t, err)
			ended = true
		default:
		}
		read, err := pygent.ReadHistory(path)
		require.NoError(t, err)
		require.Empty(t, read.Repairs())
		require.GreaterOrEqual(t, read.Len(), seen)
		seen = read.Len()
		for i, m := range read.Messages() {
			require.Len(t, m.Content, i*97%9000)
		}
		if ended {
			require.Equal(t, n, seen)
		}
	}
	require.Empty(t, h.Repairs(), "reading changes nothing")
}

func TestReadHistoryOfWhatIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := pygent.ReadHistory(filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = pygent.ReadHistory(dir)
	require.ErrorIs(t, err, pygent.ErrNotHistory)
	require.ErrorContains(t, err, "read history "+dir)

	path := filepath.Join(dir, "h.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"settings":1}`), 0o600))
	_, err = pygent.ReadHistory(path)
	require.ErrorIs(t, err, pygent.ErrNotHistory)

	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"whole"},{"role":"user","conte`), 0o600))
	h, err := pygent.ReadHistory(path)
	require.NoError(t, err)
	require.Equal(t, []string{"user whole"}, messagesIn(h.Entries()))
	require.Empty(t, h.Repairs())
	require.NoError(t, h.Append(pygent.UserMessage("another way")))
	require.Equal(t, 2, h.Len())

	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"whole"},{"role":1}{,{"role":"user","content":"after"}]`), 0o600))
	h, err = pygent.ReadHistory(path)
	require.NoError(t, err)
	require.Equal(t, []string{"user whole", "user after"}, messagesIn(h.Entries()))
	require.NotEmpty(t, h.Repairs())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "reading leaves no file")
}

func TestWhatIsKnownOfMessagesIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, api := range []pygent.OpenAIProtocol{pygent.OpenAIChat, pygent.OpenAIResponses} {
		server := pygenttest.NewServer(t,
			pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{"summary": "s"}),
			pygenttest.Text("again")).RepeatLast()
		h := loadHistory(t, &pygenttest.MemoryStore{})
		require.NoError(t, h.SetInfo(pygent.HistoryInfo{Title: "a secret title"}))
		agent := newAgent(t, newModel(t, pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(api)), pygent.WithHistory(h),
			pygent.WithTools(actionTool(t, "act", func() string { return "done" })))
		for range 2 { // the server refuses fields that it does not know
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
		}
		for _, r := range server.Requests() {
			for _, word := range []string{`"seq"`, `"time"`, `"source"`, `"turn"`, "secret title", "elapsed_seconds"} {
				require.NotContains(t, string(r.Body), word)
			}
		}
	}
}

// What is not UTF-8 is kept as U+FFFD, and the notes of such a message are found
// again.
func TestNotesOfMessagesThatAreNoUTF8(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	h, err := pygent.OpenHistory(path)
	require.NoError(t, err)
	tool := pygent.NewTool("bytes", "Return bytes", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "a\xff\\ufffd", nil })
	model := pygenttest.NewScriptedModel(pygenttest.Call("bytes", nil), pygenttest.Text("\xc3("))
	agent := quick(t, model, pygent.WithHistory(h), pygent.WithTools(tool))
	_, err = agent.RunUntilStop(t.Context(), "b\xfe", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, h.Close())
	read, err := pygent.ReadHistory(path)
	require.NoError(t, err)
	want, got := h.Entries(), read.Entries()
	require.Len(t, got, len(want))
	for i := range want {
		want[i].Message, got[i].Message = pygent.Message{}, pygent.Message{}
	}
	requireEntries(t, want, got)
}
