package pygent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fullDisk is a file that takes a limited number of bytes.
type fullDisk struct {
	storage
	room int
}

var errFull = errors.New("no space left on device")

func (d *fullDisk) WriteAt(p []byte, at int64) (int, error) {
	if len(p) <= d.room || len(p) == len(historyEnd) { // a few bytes fit where there were some
		d.room = max(0, d.room-len(p))
		return d.storage.WriteAt(p, at)
	}
	n, err := d.storage.WriteAt(p[:d.room], at)
	d.room = 0
	return n, errors.Join(err, errFull)
}

func TestFailedWriteIsMadeUpFor(t *testing.T) {
	for _, room := range []int{0, 1, 2, 5, 30} {
		path := filepath.Join(t.TempDir(), "history.json")
		h, err := OpenHistory(path)
		require.NoError(t, err)
		require.NoError(t, h.Append(UserMessage("written")))
		disk := h.file.f

		h.file.f = &fullDisk{storage: disk, room: room}
		require.ErrorIs(t, h.Append(UserMessage("does not fit at first")), errFull)
		require.ErrorIs(t, h.Append(UserMessage("nor does this")), errFull)
		require.ErrorIs(t, h.Sync(), errFull)
		require.Equal(t, 3, h.Len(), "nothing is lost from memory")
		requireFile(t, path, `[{"role":"user","content":"written"}]`)

		h.file.f = disk
		require.NoError(t, h.Append(UserMessage("fits")))
		requireFile(t, path, `[{"role":"user","content":"written"},{"role":"user","content":"does not fit at first"},`+
			`{"role":"user","content":"nor does this"},{"role":"user","content":"fits"}]`)
		require.NoError(t, h.Close())
	}
}

func TestCloseWritesWhatIsUnwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h, err := OpenHistory(path)
	require.NoError(t, err)
	disk := h.file.f
	h.file.f = &fullDisk{storage: disk}
	require.ErrorIs(t, h.Append(UserMessage("x")), errFull)
	h.file.f = disk
	require.NoError(t, h.Close())
	requireFile(t, path, `[{"role":"user","content":"x"}]`)
}

func TestSetSystemWritesWhatIsUnwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h, err := OpenHistory(path)
	require.NoError(t, err)
	h.file.f = &fullDisk{storage: h.file.f}
	require.ErrorIs(t, h.Append(UserMessage("x")), errFull)
	require.NoError(t, h.SetSystem("s"))
	requireFile(t, path, `[{"role":"system","content":"s"},{"role":"user","content":"x"}]`)
	require.NoError(t, h.Close())
}

func TestFailedReplacementChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h, err := OpenHistory(path)
	require.NoError(t, err)
	require.NoError(t, h.Append(SystemMessage("old")))
	obstacle := filepath.Join(path+".tmp", "x")
	require.NoError(t, os.MkdirAll(obstacle, 0o700))
	require.Error(t, h.SetSystem("new"))
	require.Equal(t, "old", h.Messages()[0].Content)
	require.Equal(t, "old", h.Conversation()[0].Content)

	require.NoError(t, os.RemoveAll(path+".tmp"))
	require.NoError(t, h.Append(UserMessage("x")))
	requireFile(t, path, `[{"role":"system","content":"old"},{"role":"user","content":"x"}]`)
	require.NoError(t, h.Close())
}

func requireFile(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.JSONEq(t, want, string(data))
}
