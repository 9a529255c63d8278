package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/journal"
)

// historyFile is the file of a durable history. Its methods are called with the
// history's lock held.
type historyFile struct {
	journal *journal.Journal
	history *History
}

// openHistoryFile opens or creates the file at path, repairs it if it has to,
// and gives its messages to h.
func openHistoryFile(disk journal.Disk, path string, h *History) (*historyFile, error) {
	j, data, err := journal.Open(disk, path)
	if err != nil {
		return nil, err
	}
	f := &historyFile{journal: j, history: h}
	msgs, err := f.load(data)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	h.record(msgs...)
	return f, nil
}

// load makes a sound file of data that is not, so that the next one to open it,
// a program in another language perhaps, finds a whole and legal conversation.
func (f *historyFile) load(data []byte) ([]Message, error) {
	found, err := journal.Scan(data, journal.Format[Message]{Read: readHistoryMessage, Begins: beginsMessage})
	if err != nil {
		return nil, err
	}
	if !found.Sound() && !slices.ContainsFunc(found.Elements, hasKnownRole) && len(found.Elements) > 0 {
		return nil, &journal.ForeignError{Err: errors.New("no message in it has a known role")}
	}
	mended, notes, err := mend(found.Elements, gapsOf(found))
	if err != nil {
		return nil, err
	}
	if found.Sound() && len(notes) == 0 {
		f.journal.Use(found.End, len(found.Elements) == 0)
		return found.Elements, nil
	}
	if err := f.repair(found, mended); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	f.tell(notes...)
	return mended, nil
}

// repair writes the file anew. What was more than one message that was being
// written is kept.
func (f *historyFile) repair(found *journal.Found[Message], mended []Message) error {
	var notes []string
	keep := len(found.Garbled) > 0
	for _, d := range found.Damage {
		keep = keep || !d.Cut
		notes = append(notes, describeDamage(d))
	}
	for _, i := range found.Garbled {
		notes = append(notes, fmt.Sprintf("message %d has bytes that are no UTF-8; they read as U+FFFD now", i+1))
	}
	if found.Marked {
		notes = append(notes, "a byte order mark at the beginning of the file was removed")
	}
	if !keep {
		f.tell(notes...)
		return f.journal.Replace(encodings(mended))
	}
	kept, err := f.journal.Repair(encodings(mended))
	if err != nil {
		return err
	}
	f.tell(notes...)
	f.tell("the file as it was is kept in " + kept)
	return nil
}

func describeDamage(d journal.Damage) string {
	switch {
	case d.Cut && d.Rest == 0:
		return "the file was cut off after its last message; a message being written then is lost"
	case d.Cut:
		return fmt.Sprintf("the last message was cut off and is lost (%d bytes of it were there)", d.Rest)
	}
	return fmt.Sprintf("the file is damaged after message %d: what was in its bytes %d to %d is lost to the conversation",
		d.After, d.Start, d.End-1)
}

// maxNotes bounds how many repairs of one kind are told one by one.
const maxNotes = 10

// tell adds to the history's repairs.
func (f *historyFile) tell(notes ...string) {
	h := f.history
	h.repairs = append(h.repairs, notes[:min(len(notes), maxNotes)]...)
	if more := len(notes) - maxNotes; more > 0 {
		h.repairs = append(h.repairs, fmt.Sprintf("and so at %d more places", more))
	}
}

// gapsOf tells before which messages, by index, something is missing.
func gapsOf(found *journal.Found[Message]) map[int]bool {
	gaps := map[int]bool{}
	for _, d := range found.Damage {
		gaps[d.After] = true
	}
	return gaps
}

// append adds encoded messages to the file. The history has them already.
func (f *historyFile) append(msgs []Message) error {
	return f.ownFile(f.history.messages, func() error { return f.journal.Append(encodings(msgs)...) })
}

// replace makes msgs all that the file holds.
func (f *historyFile) replace(msgs []Message) error {
	return f.ownFile(msgs, func() error { return f.journal.Replace(encodings(msgs)) })
}

func (f *historyFile) sync() error { return f.ownFile(f.history.messages, f.journal.Sync) }

// close syncs the file and releases it, also when it returns an error.
func (f *historyFile) close() error { return errors.Join(f.sync(), f.journal.Close()) }

// ownFile carries out a change to the file. When something else has removed or
// changed that, it is left as it is, and all messages go to a new one.
func (f *historyFile) ownFile(all []Message, change func() error) error {
	changed := change()
	if !errors.Is(changed, journal.ErrChanged) {
		return changed
	}
	old := f.journal.Path()
	path, err := f.journal.Move(encodings(all))
	if err != nil {
		return fmt.Errorf("%w; and a new one cannot be written: %w", changed, err)
	}
	if path == old {
		f.tell("the file was removed while it was in use; it was written anew with the whole conversation")
		return nil
	}
	f.tell(fmt.Sprintf("%s: %v; it was left as it is, and the whole conversation goes on in %s", old, changed, path))
	return nil
}

func encodings(msgs []Message) [][]byte {
	elements := make([][]byte, len(msgs))
	for i, m := range msgs {
		elements[i] = m.enc.json
	}
	return elements
}

// readHistoryMessage decodes a message of a history's file. One that stands
// behind a damaged part must have a role that is known.
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

// openError is the error of opening the file at path, for messages that have
// named it already.
func openError(path string, err error) error {
	var foreign *journal.ForeignError
	if errors.As(err, &foreign) {
		return fmt.Errorf("%w: %w", ErrNotHistory, err)
	}
	at, ok := err.(*fs.PathError)
	if abs, absErr := filepath.Abs(path); ok && absErr == nil && at.Path == abs {
		return at.Err
	}
	return err
}
