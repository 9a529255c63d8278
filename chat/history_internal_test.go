package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/journal/memdisk"
)

const memPath = "/memdisk/history.json"

func openOn(t testing.TB, disk *memdisk.Disk) *History {
	t.Helper()
	h, err := openHistoryOn(disk, memPath)
	require.NoError(t, err)
	return h
}

// requireFile checks the messages in a history's file, and those that the next
// history finds there.
func requireFile(t testing.TB, disk *memdisk.Disk, want ...string) {
	t.Helper()
	require.JSONEq(t, "["+strings.Join(want, ",")+"]", disk.Names()[memPath])
}

func users(texts ...string) (messages []string) {
	for _, text := range texts {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":%q}`, text))
	}
	return messages
}

func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	for room := range 120 {
		disk := memdisk.New()
		h := openOn(t, disk)
		require.NoError(t, h.Append(UserMessage("written")))
		disk.SetRoom(room)
		var accepted, refused []string
		for i := range 3 {
			text := fmt.Sprint("message ", i)
			err := h.Append(UserMessage(text))
			if err == nil {
				accepted = append(accepted, text)
				continue
			}
			refused = append(refused, text)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, "append to history: write "+memPath+": no space left on device", err.Error(), "said once")
		}
		require.Equal(t, 4, h.Len(), "nothing is lost from memory")
		if len(refused) > 0 {
			require.ErrorIs(t, h.Sync(), syscall.ENOSPC)
		}
		killed := openOn(t, disk.After(memdisk.Loss{}))
		require.Equal(t, append([]string{"written"}, accepted...), contents(killed), "room for %d", room)

		disk.SetRoom(-1)
		require.NoError(t, h.Append(UserMessage("fits")))
		requireFile(t, disk, users("written", "message 0", "message 1", "message 2", "fits")...)
		require.NoError(t, h.Close())
	}
}

func contents(h *History) (texts []string) {
	for _, m := range h.Messages() {
		texts = append(texts, m.Content)
	}
	return texts
}

func TestFullDiskAndASystemMessage(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h := openOn(t, disk)
	disk.SetRoom(2)
	require.Error(t, h.Append(UserMessage("x")))
	require.ErrorIs(t, h.SetSystem("s"), syscall.ENOSPC)
	require.Equal(t, []string{"x"}, contents(h), "a failed replacement changes nothing")
	require.NotContains(t, disk.Names(), memPath+".tmp")
	disk.SetRoom(-1)
	require.NoError(t, h.SetSystem("s"))
	requireFile(t, disk, append([]string{`{"role":"system","content":"s"}`}, users("x")...)...)
	require.NoError(t, h.Append(UserMessage("y")))
	requireFile(t, disk, append([]string{`{"role":"system","content":"s"}`}, users("x", "y")...)...)
	require.NoError(t, h.Close())
}

func TestCloseWritesWhatIsUnwritten(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h := openOn(t, disk)
	disk.SetRoom(0)
	require.Error(t, h.Append(UserMessage("x")))
	disk.SetRoom(-1)
	require.NoError(t, h.Close())
	requireFile(t, disk, users("x")...)
}

// Files of other programs may end in white space before or after the bracket.
func TestAppendCoversALongerEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"]" + strings.Repeat(" ", 500), strings.Repeat("\n", 500) + "]", strings.Repeat(" ", 30) + "]\n\n"} {
		disk := memdisk.New()
		disk.Write(memPath, []byte(`[{"role":"user","content":"1"}`+end))
		h := openOn(t, disk)
		require.Empty(t, h.Repairs())
		for _, text := range []string{"2", "3", strings.Repeat("4", 600), "5"} {
			require.NoError(t, h.Append(UserMessage(text)))
			requireFile(t, disk, users(contents(h)...)...)
		}
	}
}

// TestPowerLoss simulates a loss of power after every change that a history
// makes to its disk, and checks every state that the disk may then be in.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	damaged := []byte("[\n" + users("1")[0] + ",\n{\"role\"\x00\x00\x00},\n" + users("3")[0] + "\n]\n")
	for name, before := range map[string][]byte{"a new file": nil, "a damaged file": damaged} {
		t.Run(name, func(t *testing.T) {
			for off := 0; ; off++ {
				disk := memdisk.New()
				if before != nil {
					disk.Write(memPath, before)
				}
				disk.OffAfter(off)
				safe, accepted, err := live(disk)
				for _, loss := range memdisk.Losses {
					want := safe
					if loss == (memdisk.Loss{}) {
						want = accepted
					}
					checkAfter(t, disk.After(loss), want, before)
				}
				if err == nil {
					return
				}
				require.ErrorIs(t, err, memdisk.ErrOff)
			}
		})
	}
}

// live opens a history, changes it and closes it. It returns what has to
// survive a loss of power, in safe, and what has to survive the death of the
// process, in accepted.
func live(disk *memdisk.Disk) (safe, accepted []string, err error) {
	h, err := openHistoryOn(disk, memPath)
	if err != nil {
		return nil, nil, err
	}
	accepted = contents(h)
	if len(accepted) > 0 {
		safe = accepted // it was on the disk before, or has been repaired
	}
	steps := []struct {
		do   func() error
		safe bool
	}{
		{do: func() error { return h.Append(UserMessage("a")) }},
		{do: func() error { return h.Sync() }, safe: true},
		{do: func() error { return h.Append(UserMessage("b"), UserMessage("c")) }},
		{do: func() error { return h.SetSystem("one") }},
		{do: func() error { return h.Append(UserMessage("d")) }},
		{do: func() error { return h.SetSystem("two") }},
		{do: func() error { return h.Append(UserMessage("e")) }},
		{do: h.Close, safe: true},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return safe, accepted, err
		}
		accepted = contents(h)
		if step.safe {
			safe = accepted
		}
	}
	return safe, accepted, nil
}

// checkAfter opens what is left of a history. The history must have the wanted
// messages. If the file was damaged before, the original must still exist.
func checkAfter(t *testing.T, disk *memdisk.Disk, want []string, before []byte) {
	t.Helper()
	h := openOn(t, disk)
	got := contents(h)
	for _, text := range want {
		// After a crash during a change of the system message, either may be
		// there.
		if text != "one" && text != "two" {
			require.Contains(t, got, text)
		}
	}
	require.NoError(t, h.Close())
	require.True(t, json.Valid([]byte(disk.Names()[memPath])))
	require.Empty(t, openOn(t, disk).Repairs(), "repaired once and for all")
	if before != nil {
		require.Contains(t, slices.Collect(maps.Values(disk.Names())), string(before), "the file as it was")
	}
}

func TestMessagesAreNotShared(t *testing.T) {
	t.Parallel()
	mine := Message{
		Role: RoleAssistant, Content: "text",
		Parts:     []Part{{Text: "part"}},
		ToolCalls: []ToolCall{{ID: "a", Name: "bash", Arguments: "{}", Extra: map[string]json.RawMessage{"x": json.RawMessage(`1`)}}},
		Extra:     map[string]json.RawMessage{"y": json.RawMessage(`"abc"`)},
	}
	spoil := func(m *Message) {
		m.Content = "spoiled"
		m.Parts[0].Text = "spoiled"
		m.ToolCalls[0].Name = "spoiled"
		m.ToolCalls[0].Extra["x"][0] = '9'
		m.Extra["y"][1] = 'X'
		m.Extra["more"] = json.RawMessage(`1`)
		b, err := m.MarshalJSON()
		require.NoError(t, err)
		b[0] = '!'
	}
	disk := memdisk.New()
	h := openOn(t, disk)
	require.NoError(t, h.Append(mine))
	const want = `{"role":"assistant","content":[{"type":"text","text":"part"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"},"x":1}],"y":"abc"}`
	check := func() {
		t.Helper()
		b, err := h.Messages()[0].MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		b, err = h.Conversation()[0].MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		require.NoError(t, h.SetSystem("write the file anew"))
		require.NoError(t, h.SetSystem(""))
		requireFile(t, disk, want)
	}
	spoil(&mine)
	check()
	spoil(&h.Messages()[0])
	check()
	spoil(&h.Conversation()[0])
	check()
	for _, m := range slices.Concat(h.Messages(), h.Conversation()[:1]) {
		b, err := m.MarshalJSON()
		require.NoError(t, err)
		b[2] = '!'
		for _, p := range m.Parts {
			b, err := p.MarshalJSON()
			require.NoError(t, err)
			b[0] = '!'
		}
	}
	check()
}

func TestPartsHandOutNoBytesOfTheirOwn(t *testing.T) {
	t.Parallel()
	var p Part
	require.NoError(t, json.Unmarshal([]byte(`{"type":"text","text":"x","cache":1}`), &p))
	b, err := p.MarshalJSON()
	require.NoError(t, err)
	b[0] = '!'
	again, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"text","text":"x","cache":1}`, string(again))

	p.Text = "changed"
	changed, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"text","text":"changed"}`, string(changed), "what was received does not hide a change")
}

// The agent reads the conversation at every step, so that must not allocate,
// however long the record is.
func TestTheConversationCostsNothing(t *testing.T) {
	h := NewHistory(slices.Repeat([]Message{UserMessage("a"), AssistantMessage("b")}, 1000)...)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		h.toSend()
	}))
}

// OpenHistoryOn opens a history on a simulated disk.
var OpenHistoryOn = openHistoryOn

// OpenFileStore opens the store below a history in a file.
func OpenFileStore(path string) (HistoryStore, error) {
	h := &History{}
	file, err := openHistoryFile(journal.System, path, h)
	return &fileStore{h, file, false}, err
}

// fileStore does for a historyFile what its history does.
type fileStore struct {
	h      *History
	file   *historyFile
	loaded bool
}

func (s *fileStore) Load(ctx context.Context) ([]HistoryEntry, error) {
	entries, err := s.file.Load(ctx)
	if !s.loaded {
		s.h.record(entries...)
		s.loaded = true
		return s.h.Entries(), err
	}
	return append([]HistoryEntry(nil), entries...), err
}

func (s *fileStore) Append(ctx context.Context, entries ...HistoryEntry) error {
	if s.h.closed {
		return ErrHistoryClosed
	}
	before := len(s.h.entries)
	for _, e := range entries {
		var err error
		if !e.IsMark() {
			if e.Message, err = encodeForHistory(e.Message); err != nil {
				return err
			}
		}
		s.h.record(e)
	}
	return s.file.Append(ctx, s.h.entries[before:]...)
}

func (s *fileStore) SetSystem(ctx context.Context, system HistoryEntry) (err error) {
	if s.h.closed {
		return ErrHistoryClosed
	}
	if system.Message.Role != "" {
		if system.Message, err = encodeForHistory(system.Message); err != nil {
			return err
		}
	}
	if err = s.file.SetSystem(ctx, system); err == nil {
		s.h.replaceSystem(system)
	}
	return err
}

func (s *fileStore) Close() error {
	if s.h.closed {
		return nil
	}
	s.h.closed = true
	return s.file.close()
}

var errBadSector = errors.New("input/output error")

// blindDisk is a disk whose files cannot be read while it is blind.
type blindDisk struct {
	journal.Disk
	blind atomic.Bool
}

func (d *blindDisk) OpenFile(name string, flag int, perm fs.FileMode) (journal.File, error) {
	f, err := d.Disk.OpenFile(name, flag, perm)
	return blindFile{f, d}, err
}

type blindFile struct {
	journal.File
	disk *blindDisk
}

func (f blindFile) Read(p []byte) (int, error) {
	if f.disk.blind.Load() {
		return 0, errBadSector
	}
	return f.File.Read(p)
}

func (f blindFile) ReadAt(p []byte, at int64) (int, error) {
	if f.disk.blind.Load() {
		return 0, errBadSector
	}
	return f.File.ReadAt(p, at)
}

// When the file that has old texts cannot be read, nothing is lost: what needs the
// texts fails or says so, what does not goes on, and later they are there again.
func TestOldTextsThatCannotBeReadAreNotLost(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	memory := memdisk.New()
	disk := &blindDisk{Disk: memory}
	h, err := openHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	require.NoError(t, h.Append(SystemMessage("s"), UserMessage("go")))
	for i := range 60 {
		id := fmt.Sprint("c", i)
		require.NoError(t, h.Append(AssistantMessage("", ToolCall{ID: id, Name: "read", Arguments: "{}"}), ToolMessage(id, strings.Repeat("old text ", 1000))))
	}
	whole := h.Messages()
	_, err = h.appendReserved(t.Context(), HistoryEntry{Compaction: &Compaction{Keep: 4}})
	require.NoError(t, err)
	require.Positive(t, h.evicted)
	sent := h.Conversation()

	disk.blind.Store(true)
	less := h.Messages()
	require.Len(t, less, len(whole))
	require.Contains(t, less[3].Content, "left out to save room")
	require.Contains(t, strings.Join(h.Repairs(), "\n"), "input/output error")
	before := memory.Names()["/h.json"]
	require.ErrorIs(t, h.SetSystem("another"), errBadSector)
	require.Equal(t, before, memory.Names()["/h.json"], "the file is as it was")
	require.Equal(t, "s", h.Messages()[0].Text())
	require.NoError(t, h.Append(UserMessage("more")), "an append reads nothing")
	require.Equal(t, append(sent, h.Conversation()[len(sent)]), h.Conversation())

	disk.blind.Store(false)
	require.Equal(t, messagesJSON(t, whole), messagesJSON(t, h.Messages()[:len(whole)]))
	require.NoError(t, h.SetSystem("another"))
	require.Equal(t, messagesJSON(t, whole[1:]), messagesJSON(t, h.Messages()[1:len(whole)]))
	require.NoError(t, h.Close())
	again, err := openHistoryOn(memory, "/h.json")
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, messagesJSON(t, whole[1:]), messagesJSON(t, again.Messages()[1:len(whole)]))
}

func messagesJSON(t *testing.T, msgs []Message) string {
	data, err := json.Marshal(msgs)
	require.NoError(t, err)
	return string(data)
}

// What a session is told of its file is true where the system takes what is written, but
// the disk does not.
func TestASessionIsNotCalledKeptWhileTheDiskTakesNothing(t *testing.T) {
	t.Parallel()
	disk := memdisk.New()
	h, err := openHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	h.store.file.lenient = true
	require.NoError(t, h.Append(SystemMessage("s"), UserMessage("one")))
	disk.SetUnsafe(true)
	for i := range 3 {
		require.NoError(t, h.SetSystem(fmt.Sprint("another ", i)))
		require.NoError(t, h.Append(UserMessage("two")))
	}
	require.Equal(t, []string{"the session continues but is not saved: " + memdisk.ErrUnsafe.Error()}, h.Repairs())
	disk.SetUnsafe(false)
	require.NoError(t, h.Append(UserMessage("three")))
	require.Equal(t, "the session is being saved again, including everything since", h.Repairs()[1])
	require.Contains(t, disk.After(memdisk.Loss{Data: true, Names: true}).Names()["/h.json"], "three", "it survives a loss of power")
	require.NoError(t, h.Close())
}
