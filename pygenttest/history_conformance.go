package pygenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// TestHistoryStore tests that a store does what [chat.HistoryStore] promises.
// open opens the conversation with the given name, which is new when the name is
// used for the first time. The test opens a conversation again after it has
// closed its store, if that is an [io.Closer]. If open returns an error that
// matches [chat.ErrHistoryInUse], the store has one reader at a time only, and
// reading while another store writes is not tested.
func TestHistoryStore(t *testing.T, open func(conversation string) (chat.HistoryStore, error)) {
	for name, test := range map[string]func(t *testing.T, s *storeTest){
		"new":        testNewStore,
		"order":      testStoreOrder,
		"reload":     testStoreReload,
		"system":     testStoreSystem,
		"load":       testStoreLoadsAgain,
		"apart":      testStoresApart,
		"reader":     testStoreReader,
		"errors":     testStoreErrors,
		"history":    testStoreHistory,
		"large":      testStoreLarge,
		"own values": testStoreKeepsNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, &storeTest{t: t, name: name, open: open}) })
	}
}

// storeTest is a test of one conversation.
type storeTest struct {
	t    *testing.T
	name string
	open func(string) (chat.HistoryStore, error)
}

// store opens the conversation. It is closed at the end of the test.
func (s *storeTest) store(name string) chat.HistoryStore {
	s.t.Helper()
	store, err := s.open(s.name + name)
	if err != nil {
		s.t.Fatalf("open: %v", err)
	}
	s.t.Cleanup(func() { s.close(store) })
	return store
}

func (s *storeTest) close(store chat.HistoryStore) {
	if c, ok := store.(io.Closer); ok {
		_ = c.Close()
	}
}

func (s *storeTest) load(store chat.HistoryStore) []chat.HistoryEntry {
	s.t.Helper()
	entries, err := store.Load(s.t.Context())
	if err != nil {
		s.t.Fatalf("Load: %v", err)
	}
	return entries
}

func (s *storeTest) append(store chat.HistoryStore, entries ...chat.HistoryEntry) {
	s.t.Helper()
	if err := store.Append(s.t.Context(), entries...); err != nil {
		s.t.Fatalf("Append: %v", err)
	}
}

func (s *storeTest) setSystem(store chat.HistoryStore, text string) {
	s.t.Helper()
	var e chat.HistoryEntry
	if text != "" {
		e.Message = chat.SystemMessage(text)
	}
	if err := store.SetSystem(s.t.Context(), e); err != nil {
		s.t.Fatalf("SetSystem: %v", err)
	}
}

// want checks what a store has, as it is, and when it is opened again.
func (s *storeTest) want(store chat.HistoryStore, name string, want ...chat.HistoryEntry) {
	s.t.Helper()
	s.same("Load", s.load(store), want)
	s.close(store)
	store = s.store(name)
	s.same("Load of the store opened again", s.load(store), want)
	s.close(store)
}

func (s *storeTest) same(what string, got, want []chat.HistoryEntry) {
	s.t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			s.t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
		}
		g, w := entryJSON(s.t, got[i]), entryJSON(s.t, want[i])
		if bytes.Equal(g, w) {
			continue
		}
		if g, w := plainJSON(s.t, g), plainJSON(s.t, w); g != w {
			s.t.Fatalf("%s: entry %d is\n%.500s\nwant\n%.500s", what, i, g, w)
		}
	}
}

func entryJSON(t *testing.T, e chat.HistoryEntry) []byte {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// plainJSON returns an entry in JSON with the fields of all objects in order: a store
// may change that, as databases do.
func plainJSON(t *testing.T, data []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	data, _ = json.Marshal(v)
	return string(data)
}

func userEntry(seq int64, text string) chat.HistoryEntry {
	return chat.HistoryEntry{Seq: seq, Message: chat.UserMessage(text)}
}

func systemEntry(text string) chat.HistoryEntry {
	return chat.HistoryEntry{Message: chat.SystemMessage(text)}
}

func testNewStore(t *testing.T, s *storeTest) {
	store := s.store("")
	s.want(store, "")
	s.want(s.store(""), "")
}

func testStoreOrder(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	var all []chat.HistoryEntry
	for i := int64(1); i <= 120; i += 3 { // past 9 and 99, where the order of texts is another
		added := []chat.HistoryEntry{userEntry(i, fmt.Sprint("a", i)), userEntry(i+1, "the same"), userEntry(i+2, "the same")}
		s.append(store, added...)
		all = append(all, added...)
	}
	s.want(store, "", all...)
}

// allKinds are entries of every kind, with what is easily lost.
func allKinds() []chat.HistoryEntry {
	when := time.Date(2026, 2, 3, 4, 5, 6, 789012345, time.UTC)
	raw := func(s string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"own_field": json.RawMessage(s)}
	}
	call := pygent.ToolCall{ID: "c1", Name: "bash", Arguments: `{"cmd": "echo '<&>'", "n": 1e400}`, Extra: raw(`{"signature":"a+/="}`)}
	said := chat.AssistantMessage("", call, pygent.ToolCall{ID: "", Name: "no tool", Arguments: "not { JSON"})
	said.Extra = raw(`{"b":[1,2.50,12345678901234567890],"a":null,"text":"<b>\u2028"}`)
	image := chat.UserMessage("look", pygent.Part{ImageURL: "data:image/png;base64,AAAA"},
		pygent.Part{FileName: "a.pdf", FileURL: "data:application/pdf;base64,AAAA"})
	var strange pygent.Message
	_ = json.Unmarshal([]byte(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}],"name":"Ada"}`), &strange)
	return []chat.HistoryEntry{
		systemEntry("be brief"),
		{Seq: 1, Info: &chat.HistoryInfo{Title: "a title", Dir: "/src"}, Time: when},
		{Seq: 2, Message: chat.UserMessage("hello"), Source: chat.SourceUser, Time: when},
		{Seq: 3, Message: said, Time: when.Add(time.Nanosecond),
			Usage: pygent.Usage{PromptTokens: 1 << 40, CompletionTokens: 2, Cost: 0.1}, Model: "m/1", Weight: 1 << 20},
		{Seq: 4, Message: chat.ToolMessage("c1", ""), Outcome: pygent.OutcomeFailed, Time: when},
		{Seq: 5, Message: chat.ToolMessage("", "bell \a, NUL \x00, \U0001F600, 'quotes' \"here\" \\ `and` % $1 ? ; -- \r\n")},
		{Seq: 6, Message: image},
		{Seq: 7, Message: strange},
		{Seq: 8, Message: chat.SystemMessage("a second one, in the middle")},
		{Seq: 9, Message: pygent.Message{Role: "function", Name: "f", Content: " \t"}},
		{Seq: 10, Turn: &chat.TurnEnd{Status: pygent.StatusFailed, Reason: "x", Steps: 3, Usage: pygent.Usage{PromptTokens: 7}, Elapsed: time.Second}, Time: when},
		{Seq: 11, Compaction: &chat.Compaction{Keep: 4, Summary: "what was done", Pinned: 5, Cut: 2048, Gone: 7, ByModel: true, Before: 90_000, After: 20_000}, Time: when},
		{Seq: 12, Rewind: &chat.Rewind{Messages: 5, Marks: 1, Of: "abc", Restore: 7}, Time: when},
	}
}

func testStoreReload(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	s.append(store, allKinds()...)
	s.want(store, "", allKinds()...)
	store = s.store("")
	s.load(store)
	s.append(store, userEntry(13, "goes on"))
	s.want(store, "", append(allKinds(), userEntry(13, "goes on"))...)
}

func testStoreSystem(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	s.setSystem(store, "")
	s.setSystem(store, "one")
	s.same("Load", s.load(store), []chat.HistoryEntry{systemEntry("one")})
	rest := []chat.HistoryEntry{userEntry(1, "a"), {Seq: 2, Message: chat.SystemMessage("in the middle")}, userEntry(3, "b")}
	s.append(store, rest...)
	s.setSystem(store, "two")
	s.same("Load after SetSystem", s.load(store), append([]chat.HistoryEntry{systemEntry("two")}, rest...))
	s.setSystem(store, "")
	s.same("Load after the system message was removed", s.load(store), rest)
	s.setSystem(store, "three")
	s.append(store, userEntry(4, "c"))
	s.want(store, "", append(append([]chat.HistoryEntry{systemEntry("three")}, rest...), userEntry(4, "c"))...)
}

func testStoreLoadsAgain(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	s.append(store, userEntry(1, "a"))
	for range 3 {
		s.same("Load once more", s.load(store), []chat.HistoryEntry{userEntry(1, "a")})
	}
	s.append(store, userEntry(2, "b"))
	s.want(store, "", userEntry(1, "a"), userEntry(2, "b"))
}

func testStoresApart(t *testing.T, s *storeTest) {
	one, two := s.store("1"), s.store("2")
	s.load(one)
	s.load(two)
	s.append(one, userEntry(1, "one"))
	s.append(two, userEntry(1, "two"))
	s.setSystem(one, "of one")
	s.want(one, "1", systemEntry("of one"), userEntry(1, "one"))
	s.want(two, "2", userEntry(1, "two"))
}

func testStoreReader(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	reader, err := s.open(s.name)
	if errors.Is(err, chat.ErrHistoryInUse) {
		return // the store has one reader at a time
	}
	if err != nil {
		t.Fatalf("open a second time: %v", err)
	}
	defer s.close(reader)
	written := make(chan error, 1)
	const n = 50
	go func() {
		for i := int64(1); i <= n; i++ {
			if err := store.Append(t.Context(), userEntry(i, fmt.Sprint(i))); err != nil {
				written <- fmt.Errorf("Append while another store reads: %w", err)
				return
			}
		}
		written <- nil
	}()
	for ended := false; !ended; {
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		got := s.load(reader)
		if ended && len(got) != n {
			t.Fatalf("the reader sees %d entries, want %d", len(got), n)
		}
		for i, e := range got {
			if e.Message.Content != fmt.Sprint(i+1) {
				t.Fatalf("the reader sees %q as entry %d", e.Message.Content, i+1)
			}
		}
	}
}

// testStoreErrors tests that what a store cannot do is an error.
func testStoreErrors(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	s.append(store, userEntry(1, "a"))
	c, ok := store.(io.Closer)
	if !ok {
		t.Skip("the store cannot be closed")
	}
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := store.Append(context.WithoutCancel(t.Context()), userEntry(2, "b")); err == nil {
		t.Error("Append to a closed store: no error, want one")
	}
	if err := store.SetSystem(context.WithoutCancel(t.Context()), systemEntry("x")); err == nil {
		t.Error("SetSystem of a closed store: no error, want one")
	}
	s.same("Load after refused changes", s.load(s.store("")), []chat.HistoryEntry{userEntry(1, "a")})
}

// testStoreHistory tests the store below a history and an agent's run.
func testStoreHistory(t *testing.T, s *storeTest) {
	var want []chat.HistoryEntry
	for range 2 {
		store := s.store("")
		h, err := chat.LoadHistory(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		s.same("Entries of the loaded history", h.Entries(), want)
		for _, err := range []error{
			h.SetSystem(fmt.Sprint("system ", len(want))), h.SetInfo(chat.HistoryInfo{Title: "t"}),
			h.Append(chat.UserMessage("go"), chat.AssistantMessage("gone \xff")), h.Close(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want = h.Entries()
		s.close(store)
	}
	s.same("Load", s.load(s.store("")), want)
}

func testStoreLarge(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	large := userEntry(1, strings.Repeat("1 MiB of ünïcode ", 1<<16))
	s.append(store, large, userEntry(2, "after"))
	s.want(store, "", large, userEntry(2, "after"))
}

// testStoreKeepsNothing tests that a store's entries do not change with the
// values that it was given and has returned.
func testStoreKeepsNothing(t *testing.T, s *storeTest) {
	store := s.store("")
	s.load(store)
	given := []chat.HistoryEntry{userEntry(1, "a"), userEntry(2, "b")}
	s.append(store, given...)
	given[0] = userEntry(7, "changed")
	for i, loaded := 0, s.load(store); i < len(loaded); i++ {
		loaded[i] = userEntry(8, "changed")
	}
	s.same("Load", s.load(store), []chat.HistoryEntry{userEntry(1, "a"), userEntry(2, "b")})
}
