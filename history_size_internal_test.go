package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/journal/memdisk"
)

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
	require.Positive(t, h.away)
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
	require.Equal(t, []string{"the session goes on, but is not kept: " + memdisk.ErrUnsafe.Error()}, h.Repairs())
	disk.SetUnsafe(false)
	require.NoError(t, h.Append(UserMessage("three")))
	require.Equal(t, "the session is kept again, with what was said meanwhile", h.Repairs()[1])
	require.Contains(t, disk.After(memdisk.Loss{Data: true, Names: true}).Names()["/h.json"], "three", "it survives a loss of power")
	require.NoError(t, h.Close())
}
