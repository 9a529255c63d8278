package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/jsonobj"
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
	Elapsed   time.Duration `json:"-"`                   // elapsed_seconds in JSON
}

// MarshalJSON encodes the elapsed time in seconds.
func (t TurnEnd) MarshalJSON() ([]byte, error) {
	type plain TurnEnd
	return json.Marshal(struct {
		plain
		Elapsed jsonobj.Seconds `json:"elapsed_seconds"`
	}{plain(t), jsonobj.Seconds(t.Elapsed)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (t *TurnEnd) UnmarshalJSON(data []byte) error {
	type plain TurnEnd
	in := struct {
		*plain
		Elapsed *jsonobj.Seconds `json:"elapsed_seconds"`
	}{(*plain)(t), (*jsonobj.Seconds)(&t.Elapsed)}
	return json.Unmarshal(data, &in)
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
	entries, err := guard.Outlive(ctx, func() ([]HistoryEntry, error) { return link.store.Load(ctx) })
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
	if e.Turn != nil {
		turn := *e.Turn
		e.Turn = &turn
	}
	if e.Info != nil {
		info := *e.Info
		e.Info = &info
	}
	if e.Compaction != nil {
		compaction := *e.Compaction
		e.Compaction = &compaction
	}
	if e.Rewind != nil {
		rewind := *e.Rewind
		e.Rewind = &rewind
	}
	if e.Bash != nil {
		bash := *e.Bash
		bash.Refused = slices.Clone(bash.Refused)
		e.Bash = &bash
	}
	return e
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
	return guard.Outlive(ctx, func() (T, error) {
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
