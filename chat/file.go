package chat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/journal"
)

// historyFile is the store of [OpenHistory]. It keeps the messages in a file that
// other programs read as well.
type historyFile struct {
	file    *journal.Record[Message]
	found   []Message             // what the file had when it was opened
	entries func() []HistoryEntry // all entries of the history
	given   int                   // how many of them the journal was given
	notes   *journal.Notes        // what is known about the entries
	tell    func(note string)
	untold  bool // that notes cannot be written was not told since they last could
	lenient bool // that the file cannot be written is told, and is no error
	behind  bool // then: the file lacks something
}

func openHistoryFile(disk journal.Disk, path string, h *History) (*historyFile, error) {
	tell := func(note string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.repairs = append(h.repairs, note)
	}
	file, found, err := journal.OpenRecord(disk, path, historyFormat, tell)
	if err != nil {
		return nil, err
	}
	return &historyFile{file: file, found: found, entries: h.allEntries, tell: tell, untold: true}, nil
}

// Load returns what the file had when it was opened. Later, when a write has
// failed, it first writes what the journal has kept of it.
func (f *historyFile) Load(context.Context) ([]HistoryEntry, error) {
	if f.given > 0 {
		return f.entries()[:f.given], f.file.Append(nil, f.all)
	}
	notes, lines, err := f.file.Notes()
	if err != nil {
		f.tell("the notes about the messages cannot be read: " + err.Error())
	}
	entries := withNotes(f.found, lines)
	f.notes, f.given, f.found = notes, len(entries), nil
	return entries, nil
}

// Append writes messages to the file, and what is known of them beside it.
func (f *historyFile) Append(_ context.Context, entries ...HistoryEntry) error {
	f.given += len(entries) // also if the journal cannot write them, since it keeps them
	err := f.file.Append(messagesOf(entries), f.all)
	if err == nil && f.behind { // what the system has taken may still not reach the disk
		err = f.sync()
	}
	err = f.excuse(err)
	f.note(len(entries))
	return err
}

// excuse tells of an error of a lenient file instead of returning it, and tells when
// what is missing in the file was written after all, which the journal has kept.
func (f *historyFile) excuse(err error) error {
	switch {
	case !f.lenient:
		return err
	case err != nil && !f.behind:
		f.tell("the session continues but is not saved: " + err.Error())
	case err == nil && f.behind:
		f.tell("the session is being saved again, including everything since")
	}
	f.behind = err != nil
	return nil
}

// note writes the notes of the last n entries, or of all if the file has moved.
// That they cannot be written is no error: the conversation is in the file.
func (f *historyFile) note(n int) {
	all := f.entries()[:f.given]
	notes, moved := f.file.NotesMoved(f.notes)
	if moved {
		f.notes, n = notes, len(all)
	}
	if n == 0 {
		return
	}
	err := f.notes.Append(linesOf(all, len(all)-n)...)
	if err != nil && f.untold {
		f.tell("the notes about the messages cannot be saved: " + err.Error())
	}
	f.untold = err == nil
}

// SetSystem writes the file anew with another system message.
func (f *historyFile) SetSystem(_ context.Context, system HistoryEntry) error {
	old := f.entries()[:f.given]
	whole, lost, err := f.readBack(old)
	if err != nil {
		return err
	}
	all := messagesOf(withSystem(whole, system))
	if lost > 0 {
		f.giveUp(old, whole, lost)
		err = f.file.Leave(all, errLost(lost))
	} else {
		err = f.file.Replace(all)
	}
	if err = f.excuse(err); err != nil {
		return err
	}
	f.note(0) // a new file has none
	f.given += present(system.Message) - present(systemOf(old))
	return nil
}

func (f *historyFile) sync() error { return f.file.Sync(f.all) }

func (f *historyFile) close() error {
	_ = f.notes.Close()
	return f.excuse(f.file.Close(f.all))
}

// note is a line of the notes: an entry without its message.
type note struct {
	// Of is the digest of the entry's message, or of the last message before a
	// mark. It is empty if that is the system message, which may be replaced.
	Of string `json:"of,omitempty"`
	// Mark says that the entry is a mark, perhaps of a kind that is not known here.
	Mark bool `json:"mark,omitempty"`
	HistoryEntry
}

// linesOf returns the notes of the entries from an index on.
func linesOf(entries []HistoryEntry, from int) (lines [][]byte) {
	for i := from; i < len(entries); i++ {
		n := note{HistoryEntry: entries[i], Mark: entries[i].IsMark()}
		if n.Time.IsZero() && n.Outcome == "" && !n.Mark {
			continue // nothing is known
		}
		at := i
		for at >= 0 && entries[at].IsMark() {
			at--
		}
		if at > 0 || at == 0 && entries[0].Message.Role != RoleSystem {
			n.Of = digestOf(entries[at].Message)
		}
		n.Message = Message{}
		if line, err := json.Marshal(n); err == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

// digestOf identifies a message, whatever else the file holds.
//
// Invalid UTF-8 is encoded as the escape of U+FFFD. It is read back as that
// character, which is encoded as it is.
func digestOf(m Message) string {
	if m.enc.evicted != nil {
		return m.enc.evicted.digest
	}
	encoded := m.enc.text()
	if bytes.Contains(encoded, []byte(`\ufffd`)) {
		encoded = bytes.ReplaceAll(encoded, []byte(`\ufffd`), []byte("\uFFFD"))
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:12])
}

// withNotes returns the entries of messages that were found in a file. Notes are
// in the order of their entries. Those of messages that are not there any more
// are left out.
func withNotes(found []Message, lines [][]byte) []HistoryEntry {
	n := readNotes(lines)
	entries := make([]HistoryEntry, 0, len(found)+len(n.all)/4)
	if len(n.all) == 0 {
		for _, m := range found {
			entries = append(entries, HistoryEntry{Message: m})
		}
		return entries
	}
	digests, left := make([]string, len(found)), map[string]int{}
	for i, m := range found {
		digests[i] = digestOf(m)
		left[digests[i]]++
	}
	for i, m := range found {
		if i > 0 || m.Role != RoleSystem { // which is the first entry
			entries = append(entries, n.marks("")...)
			n.seq++
		}
		e := HistoryEntry{Message: m}
		if at, ok := n.of(digests[i], left[digests[i]]); ok {
			entries = append(entries, n.infos(at)...)
			n.seq = n.all[at].Seq
			e = n.take()
			e.Message = m
		}
		left[digests[i]]--
		entries = append(append(entries, e), n.marks(digests[i])...)
	}
	entries = append(entries, n.marks("")...)
	return append(entries, n.infos(len(n.all))...)
}

// notes are the notes of a file, of which those before next are done with.
type notes struct {
	all    []note
	next   int
	seq    int64            // the number of the current entry, as far as the notes tell
	places map[string][]int // where the notes of the messages with a digest are
}

// of finds the note of the current message, of which there are so many left in
// the file. If some of those have no notes, the number tells whose the next note
// is.
func (n *notes) of(digest string, left int) (at int, ok bool) {
	places := n.places[digest]
	first, _ := slices.BinarySearch(places, n.next)
	if places = places[first:]; len(places) == 0 {
		return 0, false
	}
	return places[0], n.all[places[0]].Seq == n.seq || left <= len(places)
}

// take returns the entry of the next note. Its number is made anew.
func (n *notes) take() HistoryEntry {
	e := n.all[n.next].HistoryEntry
	e.Seq = 0
	n.next++
	return e
}

func readNotes(lines [][]byte) *notes {
	n := &notes{places: map[string][]int{}}
	for _, line := range lines {
		var one note
		if json.Unmarshal(line, &one) != nil {
			continue // empty or torn
		}
		one.Message = Message{} // the file has it
		if !one.Mark {
			n.places[one.Of] = append(n.places[one.Of], len(n.all))
		}
		n.all = append(n.all, one)
	}
	return n
}

// marks takes the next notes as long as they are marks after a message.
func (n *notes) marks(digest string) (marks []HistoryEntry) {
	for n.next < len(n.all) && n.all[n.next].Mark && n.all[n.next].Of == digest {
		n.seq = n.all[n.next].Seq
		marks = append(marks, n.take())
	}
	return marks
}

// infos skips the notes up to an index, whose messages are not there any more,
// and returns those among them that are about the whole history.
func (n *notes) infos(to int) (infos []HistoryEntry) {
	for n.next < to {
		if e := n.take(); e.Info != nil {
			infos = append(infos, e)
		}
	}
	return infos
}

// ReadHistory returns the history in the file at path as it is now, while
// another process may be writing to it: it takes no lock, changes nothing, and
// leaves out a message that is not complete yet. What is appended to the history
// returned stays in memory, so it can also begin a conversation that goes another
// way. A missing file is an error that matches [io/fs.ErrNotExist].
func ReadHistory(path string) (*History, error) {
	found, lines, repairs, err := journal.Read(journal.System, path, historyFormat)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, openError(path, err))
	}
	h := &History{repairs: repairs}
	h.record(withNotes(found, lines)...)
	return h, nil
}

// historyFormat tells the journal how to read and write messages.
var historyFormat = journal.Format[Message]{
	Element: "message",
	Whole:   "conversation",
	Read:    readHistoryMessage,
	Begins:  beginsMessage,
	Doubt: func(msgs []Message) error {
		if slices.ContainsFunc(msgs, hasKnownRole) {
			return nil
		}
		return errors.New("no message in it has a known role")
	},
	Mend:  mend,
	Bytes: func(m Message) []byte { return m.enc.text() },
}

// readHistoryMessage decodes a message of a history's file. After a damaged
// part, where sure is false, the message must have a known role.
func readHistoryMessage(value []byte, sure bool) (Message, error) {
	var m Message
	if err := json.Unmarshal(value, &m); err != nil {
		return m, err
	}
	if !sure && !hasKnownRole(m) {
		return m, fmt.Errorf("role %q is not known", m.Role)
	}
	return encodeForHistory(m)
}

func hasKnownRole(m Message) bool {
	switch m.Role {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool, "developer", "function":
		return true
	}
	return false
}

// beginsMessage reports whether text can be the first bytes of a message.
func beginsMessage(text []byte) bool {
	const begin = `{"role":`
	head := strings.Join(strings.Fields(string(text[:min(len(text), 256)])), "")
	return strings.HasPrefix(head, begin) || strings.HasPrefix(begin, head)
}
