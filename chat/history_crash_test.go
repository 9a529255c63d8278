package chat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/journal/memdisk"
	"github.com/x/pygent/internal/testkit"
)

// fileOf returns the bytes of a history file with the given messages, and the
// offset at which each message ends.
func fileOf(t testing.TB, msgs []chat.Message) (data []byte, ends []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.json")
	h := testkit.OpenHistory(t, path)
	for _, m := range msgs {
		require.NoError(t, h.Append(m))
		info, err := os.Stat(path)
		require.NoError(t, err)
		ends = append(ends, int(info.Size())-len("\n]\n"))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data, ends
}

// keptOf returns the copies of damaged files that repairs of the history at
// path have kept.
func keptOf(t testing.TB, path string) []string {
	t.Helper()
	kept, err := filepath.Glob(path + ".damaged*")
	require.NoError(t, err)
	return kept
}

// requireRepaired opens a torn file. It checks that the history has the first
// whole messages, accepts another one, and leaves a valid file.
func requireRepaired(t *testing.T, torn []byte, msgs []chat.Message, whole int) *chat.History {
	t.Helper()
	disk := memdisk.New()
	disk.Write("/h.json", torn)
	h, err := chat.OpenHistoryOn(disk, "/h.json")
	require.NoError(t, err)
	want := append(msgs[:whole:whole], chat.UserMessage("on we go"))
	require.NoError(t, h.Append(want[whole]))
	require.Equal(t, jsonOf(t, want), jsonOf(t, h.Messages()))
	require.JSONEq(t, jsonOf(t, want), disk.Names()["/h.json"])
	require.Len(t, disk.Names(), 1, "an unfinished message is not worth a file")
	return h
}

func TestHistoryCutAtEveryByteLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	msgs := sample()
	data, ends := fileOf(t, msgs)
	for cut := range data {
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		h := requireRepaired(t, data[:cut], msgs, whole)
		if cut > 0 && cut < len(data)-1 { // otherwise at most the final newline is missing
			require.Len(t, h.Repairs(), 1, "cut at %d", cut)
		}
	}
}

// If a process is killed in the middle of a write, the beginning of the new
// bytes overwrites the old ones.
func TestHistoryKilledInAnyWriteLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	msgs := sample()
	data, ends := fileOf(t, msgs)
	for n, end := range ends {
		before := 1
		if n > 0 {
			before = ends[n-1]
		}
		old := append(bytes.Clone(data[:before]), "\n]\n"...)
		next := append(bytes.Clone(data[:end]), "\n]\n"...)
		for written := before; written < len(next); written++ {
			torn := bytes.Clone(next[:written])
			if written < len(old) {
				torn = append(torn, old[written:]...)
			}
			whole := n
			if written >= end {
				whole = n + 1
			}
			requireRepaired(t, torn, msgs, whole)
		}
	}
}

func TestReplacementCutShortIsSweptAway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	data, _ := fileOf(t, sample())
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.WriteFile(path+".tmp", data[:20], 0o600))
	require.NoError(t, os.WriteFile(path+".lock", nil, 0o600), "and the lock of the dead does not bind")
	h := testkit.OpenHistory(t, path)
	require.Empty(t, h.Repairs())
	require.Equal(t, len(sample()), h.Len())
	require.NoFileExists(t, path+".tmp")
}

// TestRepairChild is the process that TestRepairSurvivesKill kills. It opens
// one damaged file after another until none is left.
func TestRepairChild(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(repairChildEnv)
	if dir == "" {
		return
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	for i, path := range paths {
		h, err := chat.OpenHistory(path)
		require.NoError(t, err)
		fmt.Printf("accepted %d\n", i)
		require.NoError(t, h.Close())
	}
	select {} // wait to be killed
}

const repairChildEnv = "PYGENT_TEST_REPAIR_CHILD"

func TestRepairSurvivesKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	msgs := []chat.Message{chat.UserMessage("first"), chat.UserMessage("lost"), chat.UserMessage(strings.Repeat("x", 50_000)), chat.UserMessage("last")}
	data, ends := fileOf(t, msgs)
	copy(data[ends[0]+3:], "\x00\x00")
	for _, kill := range []int{1, 3, 6} {
		dir := t.TempDir()
		for i := range 12 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.json", i)), data, 0o600))
		}
		testkit.KillAfter(t, "TestRepairChild", repairChildEnv+"="+dir, kill)
		for i := range 12 {
			path := filepath.Join(dir, fmt.Sprintf("%02d.json", i))
			h, err := chat.OpenHistory(path)
			require.NoError(t, err)
			require.Equal(t, jsonOf(t, append(msgs[:1:1], msgs[2:]...)), jsonOf(t, h.Messages()))
			require.NoError(t, h.Close())
			for _, kept := range keptOf(t, path) {
				was, err := os.ReadFile(kept)
				require.NoError(t, err)
				require.Equal(t, data, was)
			}
			require.NotEmpty(t, keptOf(t, path))
		}
	}
}

func FuzzOpenHistory(f *testing.F) {
	data, ends := fileOf(f, sample())
	f.Add(data)
	f.Add(data[:ends[2]+9])
	f.Add([]byte(`[{"role":"user","content":[{"type":"text"}]},`))
	f.Add([]byte("[\n]\n trailing"))
	f.Add(append(make([]byte, 40), data[40:]...))
	f.Add(bytes.ReplaceAll(data, []byte("\n{"), []byte(" { ")))
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := memdisk.New()
		open := func() *chat.History {
			h, err := chat.OpenHistoryOn(disk, "/h.json")
			require.NoError(t, err)
			return h
		}
		disk.Write("/h.json", data)
		h, err := chat.OpenHistoryOn(disk, "/h.json")
		if err != nil {
			require.Equal(t, map[string]string{"/h.json": string(data)}, disk.Names(), "what is refused is not touched")
			return
		}
		found := jsonOf(t, h.Messages())
		require.NoError(t, testkit.CheckStrictly(h.Conversation()))
		require.NoError(t, h.Close())
		h = open()
		require.Empty(t, h.Repairs(), "repaired once and for all")
		require.Equal(t, found, jsonOf(t, h.Messages()))
		require.NoError(t, h.Append(chat.ToolMessage("?", "more")))
		said := jsonOf(t, h.Messages())
		require.NoError(t, h.Close())
		h = open()
		require.Empty(t, h.Repairs())
		require.Equal(t, said, jsonOf(t, h.Messages()))
		require.True(t, json.Valid([]byte(disk.Names()["/h.json"])))
	})
}

// FuzzDamage overwrites a part of a history. The messages outside of that part
// must be found, and no others.
func FuzzDamage(f *testing.F) {
	var msgs []chat.Message
	for i := range 12 {
		msgs = append(msgs, chat.UserMessage(fmt.Sprint("message ", i)))
	}
	data, ends := fileOf(f, msgs)
	f.Add(uint16(100), []byte{0})
	f.Add(uint16(200), []byte("\n{\"role\":\"user\","))
	f.Add(uint16(0), make([]byte, 120))
	f.Add(uint16(90), []byte(`}]`))
	f.Add(uint16(352), []byte("[")) // turns the last lines into one value
	f.Add(uint16(1), []byte("["))   // turns all lines into one value
	f.Add(uint16(3), bytes.Repeat([]byte("0"), 450))
	f.Fuzz(func(t *testing.T, at uint16, with []byte) {
		if int(at)+len(with) > len(data) || len(with) == 0 {
			return
		}
		torn := bytes.Clone(data)
		copy(torn[at:], with)
		disk := memdisk.New()
		disk.Write("/h.json", torn)
		whole, start := []string{}, 1 // what the damage does not touch
		for i, end := range ends {
			if end+2 <= int(at) || start > int(at)+len(with) {
				whole = append(whole, msgs[i].Content)
			}
			start = end
		}
		h, err := chat.OpenHistoryOn(disk, "/h.json")
		if err != nil {
			require.ErrorIs(t, err, chat.ErrNotHistory)
			require.True(t, at == 0 || len(whole) == 0, "only without its beginning, or all of its messages, it is no history any more")
			return
		}
		var got []string
		for _, m := range h.Messages() {
			got = append(got, m.Content)
		}
		require.Subset(t, got, whole, "%q", torn)
	})
}
