package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

var errStoreDown = errors.New("the database is down")

func loadHistory(t testing.TB, store chat.HistoryStore) *chat.History {
	t.Helper()
	h, err := chat.LoadHistory(t.Context(), store)
	require.NoError(t, err)
	return h
}

// failing returns a store whose calls of a method fail while down is set.
func failing(method string) (store *pygenttest.MemoryStore, down *atomic.Bool) {
	down = new(atomic.Bool)
	return &pygenttest.MemoryStore{Before: func(_ context.Context, m string) error {
		if down.Load() && m == method {
			return errStoreDown
		}
		return nil
	}}, down
}

func saidIn(entries []chat.HistoryEntry) (said []string) {
	for _, e := range entries {
		switch {
		case e.Turn != nil:
			said = append(said, "turn: "+string(e.Turn.Status))
		case len(e.Message.ToolCalls) > 0:
			said = append(said, "assistant: calls "+e.Message.ToolCalls[0].Name)
		default:
			said = append(said, string(e.Message.Role)+": "+e.Message.Text())
		}
	}
	return said
}

func TestAHistoryInAStoreIsContinued(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	h := loadHistory(t, store)
	require.NoError(t, h.SetSystem("be brief"))
	require.NoError(t, h.Append(chat.UserMessage("hi"), chat.AssistantMessage("hello")))
	require.NoError(t, h.Close())
	require.ErrorIs(t, h.Append(chat.UserMessage("late")), chat.ErrHistoryClosed)

	h = loadHistory(t, store)
	require.Equal(t, []string{"system: be brief", "user: hi", "assistant: hello"}, saidIn(h.Entries()))
	require.NoError(t, h.SetSystem(""))
	require.NoError(t, h.SetSystem(""))
	require.NoError(t, h.Append(chat.UserMessage("more")))
	require.NoError(t, h.SetSystem("be long"))
	require.Equal(t, []string{"system: be long", "user: hi", "assistant: hello", "user: more"}, saidIn(store.Entries()))
	for i, e := range store.Entries() {
		require.EqualValues(t, i, e.Seq)
	}
	require.Equal(t, 4, h.Len())
	require.Len(t, h.Conversation(), 4)
}

func TestAMessageIsStoredBeforeItsToolsRun(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	var seen [][]string
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("look", map[string]any{}),
		pygenttest.Call("look", map[string]any{}),
		pygenttest.Call("stop", map[string]any{})), pygent.WithHistory(loadHistory(t, store)),
		pygent.WithTools(testkit.ActionTool(t, "look", func() string {
			seen = append(seen, saidIn(store.Entries())[1:])
			return "done"
		})))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"user: go", "assistant: calls look"}, seen[0])
	require.Equal(t, []string{"user: go", "assistant: calls look", "tool: done", "assistant: calls look"}, seen[1])
	entries := store.Entries()
	end := entries[len(entries)-1]
	require.Equal(t, pygent.StatusStopped, end.Turn.Status)
	require.Equal(t, 3, end.Turn.Steps)
	require.False(t, end.Time.IsZero())
	require.Equal(t, agent.History().Len(), len(entries)-1)
}

func TestNothingRunsWhenItsMessageIsNotStored(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		store, down := failing("Append")
		ran := 0
		tool := testkit.ActionTool(t, "act", func() string { ran++; return "done" })
		tool.Idempotent = true
		model := pygenttest.NewScriptedModel(pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{}))
		agent := newAgent(t, model, pygent.WithHistory(loadHistory(t, store)), pygent.WithTools(tool),
			pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventStep {
					down.Store(true)
				}
			}))
		result, err := agent.RunUntilStop(t.Context(), "go")
		require.ErrorIs(t, err, errStoreDown)
		require.Equal(t, "append to history: the database is down", err.Error())
		require.Equal(t, pygent.StatusFailed, result.Status)
		require.Zero(t, ran, "its call is not stored")

		goOn := func() (*pygent.Result, error) { return agent.RunUntilStop(t.Context(), "again") }
		if resumed {
			goOn = func() (*pygent.Result, error) { return agent.Resume(t.Context()) }
		}
		_, err = goOn()
		require.ErrorIs(t, err, errStoreDown)
		require.Zero(t, ran)
		require.Len(t, model.Requests(), 1, "the model is not asked either")

		store.Before = nil
		result, err = goOn()
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status)
		require.Equal(t, resumed, ran == 1)
		requireSameEntries(t, agent.History(), store)
	}
}

func TestEventsAgreeWithTheHistoryWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	for failsAt, want := range map[pygent.EventType][]pygent.EventType{
		pygent.EventModelStart: {pygent.EventUser, pygent.EventMessage},
		pygent.EventToolStart:  {pygent.EventUser, pygent.EventMessage, pygent.EventToolDone},
	} {
		t.Run(string(failsAt), func(t *testing.T) {
			store, down := failing("Append")
			h := loadHistory(t, store)
			var told []pygent.EventType
			agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{})),
				pygent.WithHistory(h), pygent.WithTools(testkit.ActionTool(t, "act", func() string { return "done" })),
				pygent.OnEvent(func(e pygent.Event) {
					if e.Type == failsAt {
						down.Store(true)
					}
					if e.Messages > len(told) { // the event tells of another message
						told = append(told, e.Type)
					}
				}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.ErrorIs(t, err, errStoreDown)
			require.Equal(t, "act", result.Message.ToolCalls[0].Name)
			require.Equal(t, want, told)
			require.Len(t, messagesIn(h.Entries()), len(want)+1, "and the system message")

			store.Before = nil
			_, err = agent.RunUntilStop(t.Context(), "again")
			require.NoError(t, err)
			requireSameEntries(t, h, store)
		})
	}
}

func TestAStoreThatChangedIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	h := loadHistory(t, store)
	require.NoError(t, h.Append(chat.UserMessage("ours")))
	require.NoError(t, store.Append(t.Context(), chat.HistoryEntry{Seq: 2, Message: chat.UserMessage("theirs")}))
	store.Before = func(_ context.Context, method string) error {
		if method == "Append" {
			return errStoreDown
		}
		return nil
	}
	require.ErrorIs(t, h.Append(chat.UserMessage("more")), errStoreDown)
	err := h.Append(chat.UserMessage("again"))
	require.ErrorIs(t, err, chat.ErrHistoryChanged)
	require.EqualError(t, err, "append to history: the store has entries that this history did not write: another program may be using the same conversation")
}

func TestMarksOfALaterVersionStayInTheStore(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	var later chat.HistoryEntry
	require.NoError(t, json.Unmarshal([]byte(`{"seq":2,"time":"2030-01-01T00:00:00Z","plan":{"steps":3}}`), &later))
	require.NoError(t, store.Append(t.Context(), chat.HistoryEntry{Seq: 1, Message: chat.UserMessage("one")}, later))
	h := loadHistory(t, store)
	require.NoError(t, h.Append(chat.UserMessage("two")))
	require.Equal(t, []string{"user one", "user two"}, messagesIn(h.Entries()))
	require.Len(t, h.Conversation(), 2)
	requireSameEntries(t, h, store)
	require.EqualValues(t, 3, store.Entries()[2].Seq)
	require.Error(t, h.Append(chat.Message{}), "only stores have such marks")
}

// requireSameEntries checks that a store has all that a history has.
func requireSameEntries(t *testing.T, h *chat.History, store *pygenttest.MemoryStore) {
	t.Helper()
	want, err := json.Marshal(h.Entries())
	require.NoError(t, err)
	got, err := json.Marshal(store.Entries())
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
}

func TestAStoreThatFailsIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *pygenttest.MemoryStore, f func(context.Context, string) error){
		"nothing was stored":   func(s *pygenttest.MemoryStore, f func(context.Context, string) error) { s.Before = f },
		"all was stored":       func(s *pygenttest.MemoryStore, f func(context.Context, string) error) { s.After = f },
		"it panicked":          func(s *pygenttest.MemoryStore, f func(context.Context, string) error) { s.After = panics(f) },
		"it could not be read": func(s *pygenttest.MemoryStore, f func(context.Context, string) error) { s.Before, s.After = f, f },
	} {
		t.Run(name, func(t *testing.T) {
			store := &pygenttest.MemoryStore{}
			h := loadHistory(t, store)
			require.NoError(t, h.SetSystem("first"))
			fails := map[string]bool{"Append": true, "SetSystem": true}
			fail(store, func(_ context.Context, method string) error {
				if fails[method] {
					fails[method] = name == "it could not be read"
					return errStoreDown
				}
				return nil
			})
			require.Error(t, h.Append(chat.UserMessage("one"), chat.AssistantMessage("two")))
			err := h.SetSystem("second")
			require.Error(t, err)
			require.Equal(t, 3, h.Len(), "nothing is lost from memory")
			store.Before, store.After = nil, nil
			require.NoError(t, h.Append(chat.UserMessage("three")))
			require.Equal(t, []string{"system: first", "user: one", "assistant: two", "user: three"}, saidIn(store.Entries()))
			requireSameEntries(t, h, store)
		})
	}
}

func panics(f func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, method string) error {
		if err := f(ctx, method); err != nil {
			panic(err)
		}
		return nil
	}
}

func TestAStoreThatAnotherHistoryWritesIsNotOverwritten(t *testing.T) {
	t.Parallel()
	store, down := failing("Append")
	h, other := loadHistory(t, store), loadHistory(t, store)
	down.Store(true)
	require.Error(t, h.Append(chat.UserMessage("mine")))
	down.Store(false)
	require.NoError(t, other.Append(chat.UserMessage("theirs")))
	require.ErrorIs(t, h.Append(chat.UserMessage("mine too")), chat.ErrHistoryChanged)
	require.Equal(t, []string{"user: theirs"}, saidIn(store.Entries()))
}

func TestALoadThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	_, err := chat.LoadHistory(t.Context(), nil)
	require.EqualError(t, err, "load history: no store")
	store, down := failing("Load")
	down.Store(true)
	_, err = chat.LoadHistory(t.Context(), store)
	require.EqualError(t, err, "load history: the database is down")
	store = &pygenttest.MemoryStore{Before: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = chat.LoadHistory(ctx, store)
	require.ErrorIs(t, err, context.Canceled)
	_, err = chat.LoadHistory(t.Context(), loadOnly{{Message: chat.Message{Content: "whose?"}}})
	require.EqualError(t, err, "load history: entry 1: no role")
}

// loadOnly is a store that cannot be written to.
type loadOnly []chat.HistoryEntry

func (l loadOnly) Load(context.Context) ([]chat.HistoryEntry, error) { return l, nil }

func (loadOnly) Append(context.Context, ...chat.HistoryEntry) error { return errStoreDown }

func (loadOnly) SetSystem(context.Context, chat.HistoryEntry) error { return errStoreDown }

func TestACancelledRunIsStored(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	type key struct{}
	store.Before = func(ctx context.Context, method string) error {
		if method != "Load" && (ctx.Err() != nil || ctx.Value(key{}) != "kept") {
			t.Errorf("%s: the context has ended, or has lost its values", method)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("act", map[string]any{})), pygent.WithHistory(loadHistory(t, store)),
		pygent.WithTools(testkit.ActionTool(t, "act", func() string { cancel(); return "done" })))
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"user: go", "assistant: calls act", "tool: done", "turn: cancelled"}, saidIn(store.Entries())[1:])
}

func TestAStoreThatHangsHoldsNothingUpForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var once sync.Once
		store := &pygenttest.MemoryStore{}
		h := loadHistory(t, store)
		store.Before = func(context.Context, string) error { once.Do(func() { <-hang }); return nil }
		begin := time.Now()
		err := h.Append(chat.UserMessage("one"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "did not answer within 10s")
		require.Equal(t, 15*time.Second, time.Since(begin))
		require.Equal(t, []string{"user: one"}, saidIn(h.Entries()), "it can still be read")
		require.ErrorContains(t, h.Append(chat.UserMessage("two")), "did not answer within 10s")
		close(hang)
		require.NoError(t, h.Append(chat.UserMessage("three")))
		require.Equal(t, []string{"user: one", "user: two", "user: three"}, saidIn(store.Entries()), "each once, in order")
	})
}

func TestAStoreMayUseItsHistory(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	h := loadHistory(t, store)
	store.Before = func(context.Context, string) error { _ = h.Len(); _ = h.Messages(); return nil }
	require.NoError(t, h.Append(chat.UserMessage("one")))
}

func TestTheFileIsAHistoryStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pygenttest.TestHistoryStore(t, func(name string) (chat.HistoryStore, error) {
		return chat.OpenFileStore(filepath.Join(dir, name+".json"))
	})
}

func TestTheNumberOfALaterEntryFollowsTheStored(t *testing.T) {
	t.Parallel()
	store := &pygenttest.MemoryStore{}
	require.NoError(t, store.Append(t.Context(),
		chat.HistoryEntry{Seq: 5, Message: chat.UserMessage("a")}, chat.HistoryEntry{Seq: 6, Message: chat.AssistantMessage("b")}))
	h := loadHistory(t, store)
	require.NoError(t, h.Append(chat.UserMessage("c")))
	entries := store.Entries()
	require.EqualValues(t, 7, entries[2].Seq)
}

// A rewind that another program has written may say how many messages there were, and
// not which was the last.
func TestARewindWithoutADigestCounts(t *testing.T) {
	t.Parallel()
	said := func(m chat.Message) chat.HistoryEntry { return chat.HistoryEntry{Message: m} }
	for messages, want := range map[int][]string{
		0: {}, 1: {"user: one"}, 2: {"user: one", "assistant: two"},
		4: {"user: one", "assistant: two", "user: three", "assistant: four"},
		5: {"user: one", "assistant: two", "user: three", "assistant: four"}, // there never were so many
	} {
		h := loadHistory(t, loadOnly{said(chat.UserMessage("one")), said(chat.AssistantMessage("two")), said(chat.UserMessage("three")),
			said(chat.AssistantMessage("four")), {Rewind: &chat.Rewind{Messages: messages}}})
		require.Equal(t, append(want, "user: five"), append(append([]string{}, saidIn(h.Current())...), "user: five"), messages)
	}
}

// runInFile runs an agent whose history is in a file, and returns the file's
// path and the entries.
func runInFile(t *testing.T) (path string, entries []chat.HistoryEntry) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "history.json")
	h := testkit.OpenHistory(t, path)
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "A title", Dir: "/src"}))
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{}),
		pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{})),
		pygent.WithHistory(h), pygent.WithTools(testkit.ActionTool(t, "act", func() string { return "done" })))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
	}
	require.NoError(t, h.Close())
	return path, h.Entries()
}

func requireEntries(t *testing.T, want, got []chat.HistoryEntry) {
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
	h := testkit.OpenHistory(t, path)
	requireEntries(t, want, h.Entries())
	require.Equal(t, chat.SourceUser, h.Entries()[2].Source)
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

	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "Another"}))
	require.NoError(t, h.Close())
	read, err := chat.ReadHistory(path)
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
			h := testkit.OpenHistory(t, path)
			require.Empty(t, h.Repairs())
			require.Equal(t, messagesIn(want), messagesIn(h.Entries()))
			require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: name}))
			require.NoError(t, h.Close())
			read, err := chat.ReadHistory(path)
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
			h := testkit.OpenHistory(t, path)
			require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "a"}))
			require.NoError(t, h.Append(chat.UserMessage("one")))
			require.NoError(t, h.Close())
			require.Equal(t, "a", h.Info().Title)
			require.Contains(t, strings.Join(h.Repairs(), "\n"), "h.json.pygent-meta is something else, and is left as it is")
			left, err := os.ReadFile(path + ".pygent-meta")
			require.NoError(t, err)
			require.Equal(t, diary, string(left))

			read, err := chat.ReadHistory(path)
			require.NoError(t, err)
			require.Contains(t, messagesIn(read.Entries()), "user one")
			require.Len(t, read.Repairs(), 1)
		})
	}
}

func TestEqualMessagesKeepTheirOwnNotes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	h := testkit.OpenHistory(t, path)
	require.NoError(t, h.Append(chat.UserMessage("go"), chat.AssistantMessage("gone")))
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("gone")), pygent.WithHistory(h))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, h.Append(chat.UserMessage("go")))
	want := h.Entries()
	require.NoError(t, h.Close())

	h = testkit.OpenHistory(t, path)
	requireEntries(t, want, h.Entries())
	require.NoError(t, h.SetSystem("another"))
	require.NoError(t, h.Close())
	withoutSystem := func(entries []chat.HistoryEntry) []chat.HistoryEntry {
		if entries[0].Message.Role == chat.RoleSystem {
			return entries[1:]
		}
		return entries
	}
	read, err := chat.ReadHistory(path)
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
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, messagesIn(want), messagesIn(h.Entries()))
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "after"}))
	require.NoError(t, h.Close())
	meta, err = os.ReadFile(path + ".pygent-meta")
	require.NoError(t, err)
	require.Contains(t, string(meta), later)
}

func TestAReplayShowsHowCommandsEnded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.json")
	h := testkit.OpenHistory(t, path)
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo broken; exit 3"}), pygenttest.Call("stop", map[string]any{})),
		pygent.WithHistory(h), pygent.WithRuntime(testkit.NewRuntime(t, pygent.NewLocalRuntime)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, h.Close())
	read, err := chat.ReadHistory(path)
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

func messagesIn(entries []chat.HistoryEntry) (texts []string) {
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

	entries := testkit.OpenHistory(t, path).Entries()
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
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Entries())
	require.Empty(t, h.Info())
}

func TestNotesMoveWithTheFile(t *testing.T) {
	t.Parallel()
	path, _ := runInFile(t)
	h := testkit.OpenHistory(t, path)
	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"replaced"}]`), 0o600))
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "after"}))
	require.NoError(t, h.Append(chat.UserMessage("more")))
	require.NoError(t, h.Close())
	moved, err := filepath.Glob(path + ".continued-*[0-9]")
	require.NoError(t, err)
	require.Len(t, moved, 1)
	read, err := chat.ReadHistory(moved[0])
	require.NoError(t, err)
	requireEntries(t, h.Entries(), read.Entries())
}

func TestNotesThatCannotBeWrittenFailNothing(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	disk.SetRoom(0)
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "one"}))
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "two"}))
	require.Len(t, h.Repairs(), 1, "said once")
	require.Contains(t, h.Repairs()[0], "no space left")
	disk.SetRoom(-1)
	require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "three"}))
	require.Equal(t, "three", h.Info().Title)
}

func TestAHistoryIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := testkit.OpenHistory(t, path)
	written := make(chan error, 1)
	const n = 300
	go func() {
		for i := range n {
			if err := h.Append(chat.UserMessage(strings.Repeat("x", i*97%9000))); err != nil {
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
		read, err := chat.ReadHistory(path)
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
	_, err := chat.ReadHistory(filepath.Join(dir, "none.json"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = chat.ReadHistory(dir)
	require.ErrorIs(t, err, chat.ErrNotHistory)
	require.ErrorContains(t, err, "read history "+dir)

	path := filepath.Join(dir, "h.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"settings":1}`), 0o600))
	_, err = chat.ReadHistory(path)
	require.ErrorIs(t, err, chat.ErrNotHistory)

	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"whole"},{"role":"user","conte`), 0o600))
	h, err := chat.ReadHistory(path)
	require.NoError(t, err)
	require.Equal(t, []string{"user whole"}, messagesIn(h.Entries()))
	require.Empty(t, h.Repairs())
	require.NoError(t, h.Append(chat.UserMessage("another way")))
	require.Equal(t, 2, h.Len())

	require.NoError(t, os.WriteFile(path, []byte(`[{"role":"user","content":"whole"},{"role":1}{,{"role":"user","content":"after"}]`), 0o600))
	h, err = chat.ReadHistory(path)
	require.NoError(t, err)
	require.Equal(t, []string{"user whole", "user after"}, messagesIn(h.Entries()))
	require.NotEmpty(t, h.Repairs())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "reading leaves no file")
}

func TestWhatIsKnownOfMessagesIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, api := range []openai.Protocol{openai.Chat, openai.Responses} {
		server := pygenttest.NewServer(t,
			pygenttest.Call("act", map[string]any{}), pygenttest.Call("stop", map[string]any{"summary": "s"}),
			pygenttest.Text("again")).RepeatLast()
		h := loadHistory(t, &pygenttest.MemoryStore{})
		require.NoError(t, h.SetInfo(chat.HistoryInfo{Title: "a secret title"}))
		model, err := openai.New(openai.Env(nil), openai.Key("sk-test"), openai.BaseURL(server.URL()), openai.API(api))
		require.NoError(t, err)
		t.Cleanup(model.CloseIdleConnections)
		agent := newAgent(t, model, pygent.WithHistory(h),
			pygent.WithTools(testkit.ActionTool(t, "act", func() string { return "done" })))
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
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	tool := pygent.NewTool("bytes", "Return bytes", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "a\xff\\ufffd", nil })
	model := pygenttest.NewScriptedModel(pygenttest.Call("bytes", nil), pygenttest.Text("\xc3("))
	agent := quick(t, model, pygent.WithHistory(h), pygent.WithTools(tool))
	_, err = agent.RunUntilStop(t.Context(), "b\xfe", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, h.Close())
	read, err := chat.ReadHistory(path)
	require.NoError(t, err)
	want, got := h.Entries(), read.Entries()
	require.Len(t, got, len(want))
	for i := range want {
		want[i].Message, got[i].Message = chat.Message{}, chat.Message{}
	}
	requireEntries(t, want, got)
}
