package pygent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/safecall"
)

// HistoryStore keeps the entries of one conversation, in a database for
// example. [LoadHistory] makes a history of it. A store only has to keep
// what it is given, in order; all else is done by the [History]:
//
//   - It calls one method at a time, and Load first.
//   - A message of the model is stored before its tools run, and each result
//     before the model is asked again. When Append returns an error, the run ends
//     with that error, and no further tool runs.
//   - After an error it calls Load again, since nobody knows what was stored. It
//     goes on after the entries that are there, and returns [ErrHistoryChanged]
//     if they are not its own. So an Append that stores its entries only in part
//     does no harm, nor does one that stores them and returns an error.
//   - The context of a call has the values of the run's context, but does not end
//     with it, so that a cancelled run is stored as well. It ends after ten
//     seconds. A call that ignores this fails, and the next one waits for it.
//   - Another process may load the conversation while this one adds to it. A store
//     that cannot allow that returns [ErrHistoryInUse] when it is opened.
//
// How durable an entry is when Append returns is for the store to say. A
// database that commits loses nothing when the machine fails; the file of
// [OpenHistory] loses nothing when the process is killed.
//
// The history keeps all entries in memory as well, since a store cannot be asked for
// single ones.
//
// pygenttest.TestHistoryStore tests a store.
type HistoryStore interface {
	// Load returns all entries in their order. It returns none for a new
	// conversation.
	Load(ctx context.Context) ([]HistoryEntry, error)
	// Append adds entries after all others. Their Seq numbers follow on from
	// those that were stored, so they can be the key of a table.
	Append(ctx context.Context, entries ...HistoryEntry) error
	// SetSystem makes system, whose Seq is 0, the first entry, in place of an
	// entry with that number. If its message has no role, there is no such entry
	// afterwards. No other entry changes.
	SetSystem(ctx context.Context, system HistoryEntry) error
}

// HistoryEntry is one entry of a history: a message with what is known about
// it, or a mark between messages, in which Message has no role. Only the message
// is ever sent to a model. Its JSON is meant to be stored.
//
// A mark without any of the fields for marks is one that a later version of this
// package made. Skip it; stores keep it. A message with content but without a role
// is none: loading it is an error.
type HistoryEntry struct {
	// Seq is the number of the entry: 0 for the system message at the beginning,
	// and from 1 for all others. It never changes while the history is open.
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time,omitzero"` // when a run added it; zero if that is not known
	Message Message   `json:"message,omitzero"`
	Source  Source    `json:"source,omitempty"`  // who wrote a message in the user's role; empty if that is not known
	Outcome Outcome   `json:"outcome,omitempty"` // how the call ended whose result the message is; empty if that is not known
	// Bash is how a command of the tool bash ended whose result the message is. It
	// lacks the command and the output, which the messages have.
	Bash *BashResult `json:"bash,omitempty"`
	// Usage is what the provider counted for a message of the model, Model is what was
	// asked for it, and Weight the size of that request, about its bytes. By the last of
	// them a resumed session knows how long a token is. They are zero if not known.
	Usage  Usage  `json:"usage,omitzero"`
	Model  string `json:"model,omitempty"`
	Weight int    `json:"weight,omitempty"`

	Turn *TurnEnd     `json:"turn,omitempty"` // the mark of the end of a run
	Info *HistoryInfo `json:"info,omitempty"` // the mark of a call of SetInfo
	// Compaction is the mark of what made the conversation before it shorter for
	// the model. The messages themselves stay.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Rewind is the mark from which the conversation goes on as it was earlier.
	Rewind *Rewind `json:"rewind,omitempty"`
}

// HistoryInfo describes a history for people who choose one from a list.
type HistoryInfo struct {
	Title string `json:"title,omitempty"`
	Dir   string `json:"dir,omitempty"` // the directory that the conversation is about

	// The times of the first and of the last entry whose time is known. SetInfo
	// ignores them.
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
}

// TurnEnd says how a run of an agent ended. Its duration is in seconds in JSON.
type TurnEnd struct {
	Status    Status        `json:"status"`
	Reason    string        `json:"reason,omitempty"` // the status in words, if there is more to say
	Steps     int           `json:"steps"`
	Usage     Usage         `json:"usage"`               // of the agent itself
	TaskUsage Usage         `json:"task_usage,omitzero"` // of the tasks that it delegated
	Elapsed   time.Duration `json:"-" seconds:"elapsed_seconds"`
}

// MarshalJSON encodes the elapsed time in seconds.
func (t TurnEnd) MarshalJSON() ([]byte, error) {
	type plain TurnEnd
	return jsonobj.MarshalSeconds(plain(t))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *TurnEnd) UnmarshalJSON(data []byte) error {
	type plain TurnEnd
	return jsonobj.UnmarshalSeconds(data, (*plain)(t))
}

// LoadHistory returns the history that store keeps. The history does not close
// the store; close that after the agent and the history. Nothing but ctx bounds
// how long it waits for the store.
func LoadHistory(ctx context.Context, store HistoryStore) (*History, error) {
	if store == nil {
		return nil, errors.New("load history: no store")
	}
	h := &History{}
	if err := h.load(ctx, &storeLink{store: store}); err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	return h, nil
}

// load begins the history with what a store has.
func (h *History) load(ctx context.Context, link *storeLink) error {
	entries, err := safecall.Outlive(ctx, func() ([]HistoryEntry, error) { return link.store.Load(ctx) })
	if err != nil {
		return err
	}
	entries = slices.Clone(entries)
	for i := range entries {
		if e := &entries[i]; !e.isMark() || !e.Message.same(&Message{}) {
			if e.Message, err = encodeForHistory(e.Message); err != nil {
				return fmt.Errorf("entry %d: %w", i+1, err)
			}
		}
	}
	h.record(entries...)
	h.store, link.given = link, len(entries)
	h.putAway()
	return nil
}

// nextSeq returns the number of an entry that is to be added. An entry that a
// store had keeps its own, unless that does not follow.
func (h *History) nextSeq(e *HistoryEntry) int64 {
	if len(h.entries) == 0 {
		return max(e.Seq, int64(1-present(systemOf([]HistoryEntry{*e}))))
	}
	return max(e.Seq, h.entries[len(h.entries)-1].Seq+1)
}

// write gives the store the entries that it does not have yet. The caller holds
// writing.
func (h *History) write(ctx context.Context) error {
	if h.store == nil {
		return nil
	}
	return h.store.write(ctx, h.shared())
}

// catchUp writes what could not be written before, so that nothing is done whose
// reason is not stored.
func (h *History) catchUp(ctx context.Context) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.store == nil || h.open(true) != nil {
		return nil
	}
	if err := h.write(ctx); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	return nil
}

// replaceSystem puts an encoded system message in the place of the one at the
// beginning, in new arrays. One without a role removes it.
func (h *History) replaceSystem(system HistoryEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := systemOf(h.entries)
	shown := 0 // how many system messages begin the legal form
	if old.Role != "" && !saysNothing(old) {
		shown = 1
	}
	h.entries = withSystem(h.entries, system)
	more := present(system.Message) - present(old)
	h.count, h.looked = h.count+more, max(h.looked+more, 0)
	var head []Message
	if system.Message.Role != "" && !saysNothing(system.Message) {
		head = []Message{system.Message}
	}
	h.legal.replaceHead(shown, head)
}

// Info describes the history: what was last given to SetInfo, and the times.
func (h *History) Info() HistoryInfo {
	var info HistoryInfo
	var created, updated time.Time
	for _, e := range h.shared() {
		if e.Info != nil {
			info = *e.Info
		}
		if !e.Time.IsZero() {
			created, updated = cmp.Or(created, e.Time), e.Time
		}
	}
	info.Created, info.Updated = created, updated
	return info
}

// SetInfo sets the title and the directory of the history, also during a run. It
// fails as Append does.
func (h *History) SetInfo(info HistoryInfo) error {
	info.Created, info.Updated = time.Time{}, time.Time{}
	_, err := h.appendReserved(context.Background(), HistoryEntry{Info: &info})
	return err
}

// isMark reports whether the entry is a mark between messages.
func (e *HistoryEntry) isMark() bool { return e.Message.Role == "" }

// clone returns a copy that shares nothing that can change.
func (e HistoryEntry) clone() HistoryEntry {
	e.Message = e.Message.clone()
	e.Turn, e.Info, e.Compaction, e.Rewind, e.Bash = copied(e.Turn), copied(e.Info), copied(e.Compaction), copied(e.Rewind), copied(e.Bash)
	if e.Bash != nil {
		e.Bash.Refused = slices.Clone(e.Bash.Refused)
	}
	return e
}

// copied returns a copy of what p points to, if it is not nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// alike reports whether two entries are the same one, of which one was stored
// and read again. A store may change how the JSON of unknown fields is written.
func alike(a, b HistoryEntry) bool {
	if a.isMark() || b.isMark() {
		return a.isMark() == b.isMark()
	}
	m, n := a.Message, b.Message
	return m.Role == n.Role && strings.ToValidUTF8(m.Text(), "\ufffd") == strings.ToValidUTF8(n.Text(), "\ufffd") &&
		m.ToolCallID == n.ToolCallID && len(m.Parts) == len(n.Parts) &&
		slices.EqualFunc(m.ToolCalls, n.ToolCalls, func(c, d ToolCall) bool { return c.ID == d.ID && c.Name == d.Name })
}

// messagesOf returns the messages among entries.
func messagesOf(entries []HistoryEntry) []Message {
	messages := make([]Message, 0, len(entries))
	for i := range entries {
		if !entries[i].isMark() {
			messages = append(messages, entries[i].Message)
		}
	}
	return messages
}

// systemOf returns the system message with which entries begin. It has no role
// if there is none.
func systemOf(entries []HistoryEntry) Message {
	if len(entries) == 0 || entries[0].Message.Role != RoleSystem {
		return Message{}
	}
	return entries[0].Message
}

// present is 1 for a message, and 0 for one without a role.
func present(m Message) int {
	if m.Role == "" {
		return 0
	}
	return 1
}

// withSystem returns a copy of entries that begins with system, or with no
// system message if that has no role.
func withSystem(entries []HistoryEntry, system HistoryEntry) []HistoryEntry {
	rest := entries[present(systemOf(entries)):]
	return slices.Concat([]HistoryEntry{system}[:present(system.Message)], rest)
}

// storeWithin is how long a store of the caller's may take for one call.
const storeWithin = 10 * time.Second

// storeLink is what a history knows about its store. The history's writing
// guards it.
type storeLink struct {
	store  HistoryStore
	file   *historyFile    // the store, if it is a file, which needs no time limit
	given  int             // how many of the history's entries the store has
	unsure bool            // a call failed, so given may be wrong
	late   <-chan struct{} // closed when the last call, which took too long, returns
}

// write appends those of a history's entries that the store does not have.
func (l *storeLink) write(ctx context.Context, all []HistoryEntry) error {
	if l.unsure {
		if err := l.find(ctx, all); err != nil {
			return err
		}
	}
	if l.given == len(all) {
		return nil
	}
	added := all[l.given:]
	if l.file == nil {
		added = slices.Clone(added)
	}
	if err := l.change(ctx, func(ctx context.Context) error { return l.store.Append(ctx, added...) }); err != nil {
		return err
	}
	l.given = len(all)
	return nil
}

// setSystem replaces the system message, after it has written what the store
// does not have yet. all are the history's entries as they are before.
func (l *storeLink) setSystem(ctx context.Context, all []HistoryEntry, system HistoryEntry) error {
	if err := l.write(ctx, all); err != nil {
		return err
	}
	if err := l.change(ctx, func(ctx context.Context) error { return l.store.SetSystem(ctx, system) }); err != nil {
		return err
	}
	l.given += present(system.Message) - present(systemOf(all))
	return nil
}

// find finds out which of a history's entries the store has, after a call that
// failed.
func (l *storeLink) find(ctx context.Context, all []HistoryEntry) error {
	stored, err := callStore(ctx, l, l.store.Load)
	if err != nil {
		return err
	}
	system := HistoryEntry{Message: systemOf(all)}
	if !alike(HistoryEntry{Message: systemOf(stored)}, system) {
		if err := l.change(ctx, func(ctx context.Context) error { return l.store.SetSystem(ctx, system) }); err != nil {
			return err
		}
		stored = withSystem(stored, system)
	}
	if len(stored) > len(all) || !slices.EqualFunc(stored, all[:len(stored)], alike) {
		return errStoreChanged{}
	}
	l.given, l.unsure = len(stored), false
	return nil
}

// sync writes all entries, and puts a file on stable storage.
func (l *storeLink) sync(ctx context.Context, all []HistoryEntry) error {
	if err := l.write(ctx, all); err != nil || l.file == nil {
		return err
	}
	return l.file.sync()
}

// close writes all entries, and closes a file.
func (l *storeLink) close(ctx context.Context, all []HistoryEntry) error {
	err := l.write(ctx, all)
	if l.file == nil {
		return err
	}
	if closed := l.file.close(); err == nil {
		err = closed // else it has the same cause
	}
	return err
}

// change calls a method that changes the store.
func (l *storeLink) change(ctx context.Context, f func(ctx context.Context) error) error {
	if l.file != nil {
		err := f(ctx)
		l.unsure = l.unsure || err != nil
		return err
	}
	_, err := callStore(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// callStore calls a method of the store. For a store of the caller's own it
// limits the time, and a panic is an error.
func callStore[T any](ctx context.Context, l *storeLink, f func(ctx context.Context) (T, error)) (value T, err error) {
	if l.file != nil {
		return f(ctx)
	}
	defer func() { l.unsure = l.unsure || err != nil }()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), storeWithin, errStoreSlow)
	defer cancel()
	if l.late != nil {
		select {
		case <-l.late:
		case <-ctx.Done():
			return value, errStoreSlow
		}
	}
	returned := make(chan struct{})
	l.late = returned
	return safecall.Outlive(ctx, func() (T, error) {
		defer close(returned)
		return f(ctx)
	})
}

// errStoreChanged is [ErrHistoryChanged] in the words for a store.
type errStoreChanged struct{}

// Error implements the error interface.
func (errStoreChanged) Error() string {
	return "the store has entries that this history did not write: another program may use the same conversation"
}

// Is makes errors.Is find [ErrHistoryChanged].
func (errStoreChanged) Is(target error) bool { return target == ErrHistoryChanged }

var errStoreSlow = fmt.Errorf("the store did not answer within %s", storeWithin)

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
	return &historyFile{file: file, found: found, entries: h.shared, tell: tell, untold: true}, nil
}

// Load returns what the file had when it was opened. Later, when a write has
// failed, it first writes what the journal has kept of it.
func (f *historyFile) Load(context.Context) ([]HistoryEntry, error) {
	if f.given > 0 {
		return f.entries()[:f.given], f.file.Append(nil, f.all)
	}
	notes, lines, err := f.file.Notes()
	if err != nil {
		f.tell("what is known about the messages cannot be read: " + err.Error())
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
		f.tell("the session goes on, but is not kept: " + err.Error())
	case err == nil && f.behind:
		f.tell("the session is kept again, with what was said meanwhile")
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
		f.tell("what is known about the messages cannot be kept: " + err.Error())
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
		n := note{HistoryEntry: entries[i], Mark: entries[i].isMark()}
		if n.Time.IsZero() && n.Outcome == "" && !n.Mark {
			continue // nothing is known
		}
		at := i
		for at >= 0 && entries[at].isMark() {
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
	if m.enc.away != nil {
		return m.enc.away.digest
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

// openHistory returns the history of an agent: the one that was given, or a new one.
func (o *options) openHistory() (*History, error) {
	switch {
	case o.history != nil:
		return o.history, nil
	case o.historyFile != "":
		dirs, err := o.writableDirs()
		if err != nil {
			return nil, err
		}
		return openHistoryBeside(dirs, o.historyFile)
	}
	return NewHistory(), nil
}

// closeHistory closes the history unless it is the caller's.
func (a *Agent) closeHistory() error {
	if a.opts.history != nil {
		return nil
	}
	a.session.Ending()
	err := errors.Join(a.history.Close(), a.session.Close())
	a.tellRepairs() // the file may have been changed since the last run
	return err
}

// tellRepairs emits a warning for each repair of the history's file, and each
// change of it by others, since the last time.
func (a *Agent) tellRepairs() {
	for _, repair := range a.history.untold() {
		a.emit(Event{Type: EventWarning, Text: "history: " + repair})
	}
}

// encodeForHistory returns a copy of m with its JSON, if that JSON reads back as
// a message.
func encodeForHistory(m Message) (Message, error) {
	if m.Role == "" {
		return m, errors.New("no role")
	}
	for _, name := range []string{"role", "content", "name", "tool_calls", "tool_call_id"} {
		if _, ok := m.Extra[name]; ok {
			return m, fmt.Errorf("extra field %q has a field of its own", name)
		}
	}
	for i, p := range m.Parts {
		if p.AudioURL != "" && !mediabudget.IsRecording(p.AudioURL) {
			return m, fmt.Errorf("part %d: want a recording as a URL that begins with data:audio/ and has base64", i+1)
		}
	}
	for _, call := range m.ToolCalls {
		for _, name := range []string{"id", "type", "function"} {
			if _, ok := call.Extra[name]; ok {
				return m, fmt.Errorf("tool call: extra field %q has a field of its own", name)
			}
		}
	}
	return m.clone().encoded()
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
