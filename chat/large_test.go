//go:build !race

// These tests measure memory, or move so much that the race detector makes them take a
// minute; what may race in them runs with it in other tests.

package chat_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent/chat"
)

// What the model needs no more is kept by the file alone, and the record is whole
// nevertheless. No other test may run while memory is measured.
func TestALongRunKeepsOldTextsInItsFileAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	var early uint64
	h := longHistory(t, filepath.Join(t.TempDir(), "history.json"), awaySteps, func(n int) {
		if n == awaySteps/3 {
			early = heap()
		}
	})
	late := heap()
	require.Less(t, int64(late)-int64(early), int64(awaySteps*awayResult/4), "%d results of %d bytes came in between", awaySteps*2/3, awayResult)
	requireWhole(t, h.Messages(), awaySteps)
	require.NoError(t, h.Close())
}

// A hostile file that is opened keeps memory in proportion to its size, most where each
// 30 bytes are a message, and what is allocated on the way grows with its size and not
// with the square of that. No other test may run while memory is measured.
func TestHostileFilesTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large files")
	}
	const size = 1 << 20
	const keeps, allocates = 16, 256 // times the file
	for name, unit := range map[string]string{
		"nested":           `{"role":[`,
		"nested in fields": `{"role":{"role":`,
		"begun":            `{"role":"`,
		"in lines":         "\n{\"role\":[",
		"numbers":          `1,`,
		"braces":           `{ `,
		"long end":         `{"role":"user","content":"x"},`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.json")
			writeFile(t, path, `[{"role":"user","content":"x"},`+strings.Repeat(unit, size/len(unit))+strings.Repeat(" ", size))
			var h *chat.History
			var err error
			before := heap()
			took := allocated(func() { h, err = chat.OpenHistory(path) })
			require.Less(t, int64(heap())-int64(before), int64(keeps*2*size))
			require.Less(t, took, uint64(allocates*2*size))
			if name == "numbers" {
				require.ErrorIs(t, err, chat.ErrNotHistory)
				return
			}
			require.NoError(t, err)
			if name != "long end" {
				require.Equal(t, 1, h.Len())
			}
			require.NoError(t, h.Close())
		})
	}
}

// TestDamagedBytesCostOneMessage zeroes bytes at many places in files of every
// layout, and looks for the messages that it did not touch.
func TestDamagedBytesCostOneMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("damages a file at every byte")
	}
	t.Parallel()
	msgs := tricky()
	for layout, write := range layouts {
		for _, tt := range []struct{ length, stride, lose int }{{1, 3, 1}, {40, 17, 2}} {
			t.Run(fmt.Sprintf("%s, %d bytes", layout, tt.length), func(t *testing.T) {
				data, length := write(t, msgs), tt.length
				for at := 0; at+length <= len(data); at += tt.stride {
					torn := bytes.Clone(data)
					copy(torn[at:], make([]byte, length))
					checkDamaged(t, torn, msgs, tt.lose)
				}
			})
		}
	}
}

// What another program does to the file loses nothing that is still in memory, and
// of the rest, what the model was last sent stays.
func TestOldTextsOfAFileThatOthersChange(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	const steps = 20 // enough for several compactions
	tests := map[string]struct {
		change func(t *testing.T, path string)
		lost   bool // what only the file had
	}{
		"removed":   {change: func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }},
		"replaced":  {change: replaceFile},
		"truncated": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 10)) }, true},
	}
	if runtime.GOOS == "windows" {
		delete(tests, "removed") // an open file cannot be
		delete(tests, "replaced")
	}
	for name, test := range tests {
		for _, then := range []string{"append", "system"} {
			t.Run(name+", then "+then, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "history.json")
				h := longHistory(t, path, steps, func(int) {})
				count, sent := h.Len(), jsonOf(t, h.Conversation())
				test.change(t, path)
				msgs := h.Messages()
				require.Len(t, msgs, count)
				require.True(t, sent == jsonOf(t, h.Conversation()))
				if then == "append" {
					require.NoError(t, h.Append(chat.UserMessage("more")))
				} else {
					require.NoError(t, h.SetSystem("another"))
				}
				check := func(h *chat.History) {
					msgs := h.Messages()
					require.GreaterOrEqual(t, len(msgs), count)
					if !test.lost {
						requireWhole(t, msgs, steps)
						return
					}
					said := jsonOf(t, msgs)
					require.True(t, strings.Contains(said, "left out to save room"))
					require.True(t, strings.Contains(said, jsonOf(t, awayText(steps))[1:1000]), "the end was in memory")
				}
				check(h)
				require.NotEmpty(t, h.Repairs())
				if test.lost {
					require.Contains(t, strings.Join(h.Repairs(), "\n"), "old messages are no longer in the file")
				}
				require.NoError(t, h.Close())

				files, err := filepath.Glob(path + ".continued-*[0-9]")
				require.NoError(t, err)
				if len(files) == 0 {
					files = []string{path}
				}
				again, err := chat.OpenHistory(files[0])
				require.NoError(t, err)
				defer again.Close()
				require.Empty(t, again.Repairs())
				require.True(t, jsonOf(t, h.Conversation()) == jsonOf(t, again.Conversation()), "the model is sent the same")
				check(again)
			})
		}
	}
}

// The record is whole while it is open, when it is closed, and when it is opened again.
func TestOldTextsAreReadFromTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	const steps = awaySteps / 3
	path := filepath.Join(t.TempDir(), "history.json")
	h := longHistory(t, path, steps, func(int) {})
	require.NoError(t, h.SetSystem("another"))
	requireWhole(t, h.Messages(), steps)
	require.NoError(t, h.Append(chat.UserMessage("more")))
	require.NoError(t, h.Close())
	requireWhole(t, h.Messages(), steps)
	require.Empty(t, h.Repairs())

	again, err := chat.OpenHistory(path)
	require.NoError(t, err)
	defer again.Close()
	require.Empty(t, again.Repairs())
	require.True(t, jsonOf(t, h.Messages()) == jsonOf(t, again.Messages()))
	require.True(t, jsonOf(t, h.Entries()) == jsonOf(t, again.Entries()))
	require.True(t, jsonOf(t, h.Conversation()) == jsonOf(t, again.Conversation()))
}
