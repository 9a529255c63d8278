package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/x/pygent/internal/filelock"
)

// Bounds of the history of what was typed.
const (
	maxEntries     = 1000     // that are kept
	maxEntry       = 32 << 10 // bytes of one
	maxHistoryFile = 2 << 20  // bytes of the file, from which it is made shorter
)

// inputHistory is what was typed in this and in earlier sessions. It is kept in a
// file that only the user can read: a line of JSON for each message. Sessions that
// go on at the same time add to the same file; each sees what the others had added
// when it began.
type inputHistory struct {
	path    string // empty if it is not kept
	entries []string
	at      int    // the entry that is shown; len(entries) for the draft
	draft   string // what was typed before
}

// stateFile is where the history is kept; empty if the user has no home.
func stateFile() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
		if runtime.GOOS == "windows" {
			if dir, err = os.UserCacheDir(); err != nil {
				return ""
			}
		}
	}
	return filepath.Join(dir, "pygent", "input-history.jsonl")
}

// openHistory reads the history. What cannot be read is left out: it is a
// convenience.
func openHistory(path string) *inputHistory {
	h := &inputHistory{path: path}
	defer h.rest()
	if path == "" {
		return h
	}
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		h.path = ""
		return h
	}
	_ = withFile(path, func(f *os.File, alone bool) error {
		data, err := readEnd(f)
		if err != nil {
			return err
		}
		h.entries = entriesIn(data)
		if info, err := f.Stat(); err != nil || !alone || info.Size() <= maxHistoryFile {
			return err
		}
		return rewrite(f, h.entries)
	})
	return h
}

// lockWait is how long another session is waited for that has the file. One that is
// stopped keeps it for ever.
const lockWait = 100 * time.Millisecond

// withFile calls use with the file. alone says that no other session changes it
// meanwhile.
func withFile(path string, use func(f *os.File, alone bool) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	alone := filelock.Lock(f) == nil
	for until := time.Now().Add(lockWait); !alone && time.Now().Before(until); alone = filelock.Lock(f) == nil {
		time.Sleep(lockWait / 20)
	}
	if alone {
		defer func() { _ = filelock.Unlock(f) }()
	}
	return use(f, alone)
}

// readEnd reads the last part of a file.
func readEnd(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	from := max(info.Size()-maxHistoryFile, 0)
	data := make([]byte, info.Size()-from)
	n, err := f.ReadAt(data, from)
	if n == len(data) {
		err = nil
	}
	if from > 0 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data, err
}

// entriesIn returns the last entries of a file's text, without lines that are none.
func entriesIn(data []byte) (entries []string) {
	for line := range bytes.Lines(data) {
		var entry string
		if json.Unmarshal(line, &entry) == nil && entry != "" && len(entry) <= maxEntry {
			entries = append(entries, typed(entry))
		}
	}
	return last(entries, maxEntries)
}

// rewrite makes a file shorter.
func rewrite(f *os.File, entries []string) error {
	var b bytes.Buffer
	for _, entry := range entries {
		b.Write(lineOf(entry))
	}
	if b.Len() > maxHistoryFile/2 {
		return rewrite(f, entries[len(entries)/2:])
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Write(b.Bytes())
	return err
}

func lineOf(entry string) []byte {
	line, _ := json.Marshal(entry) // it is a text
	return append(line, '\n')
}

// add adds what was typed.
func (h *inputHistory) add(text string) {
	defer h.rest()
	if text == "" || len(text) > maxEntry || len(h.entries) > 0 && h.entries[len(h.entries)-1] == text {
		return
	}
	h.entries = last(append(h.entries, text), maxEntries)
	if h.path != "" {
		_ = withFile(h.path, func(f *os.File, _ bool) error {
			_, err := f.Write(append(lineEndAfter(f), lineOf(text)...))
			return err
		})
	}
}

// lineEndAfter returns the line end that is missing after a line of which only a part
// was written, because the disk was full or the process was killed.
func lineEndAfter(f *os.File) []byte {
	last := []byte{'\n'}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		_, _ = f.ReadAt(last, info.Size()-1)
	}
	if last[0] == '\n' {
		return nil
	}
	return []byte{'\n'}
}

// rest goes back to the draft.
func (h *inputHistory) rest() { h.at, h.draft = len(h.entries), "" }

// move goes to a later or an earlier entry, and keeps the draft.
func (h *inputHistory) move(by int, draft string) (text string, ok bool) {
	to := h.at + by
	if to < 0 || to > len(h.entries) {
		return "", false
	}
	if h.at == len(h.entries) {
		h.draft = draft
	}
	if h.at = to; to == len(h.entries) {
		return h.draft, true
	}
	return h.entries[to], true
}
