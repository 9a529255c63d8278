package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/journal"
	"github.com/x/pygent/internal/mediabudget"
)

// Errors of a [History], to be tested with errors.Is.
var (
	// ErrHistoryInUse is returned when another history, of this process or of
	// another one, has the same file open.
	ErrHistoryInUse = journal.ErrInUse
	// ErrNotHistory is returned for a file that does not hold a conversation.
	// Such a file is left as it is.
	ErrNotHistory = errors.New("not a history of chat messages")
	// ErrHistoryChanged is returned when something else has changed the store of
	// an open history, or has removed or changed its file and the conversation
	// could not be written to a new one either.
	ErrHistoryChanged = journal.ErrChanged
	// ErrHistoryClosed is returned for changes to a history after Close.
	ErrHistoryClosed = errors.New("the history is closed")
	// ErrHistoryBusy is returned for a change that would come between the
	// messages of a current run, such as an append between a call and its
	// result.
	ErrHistoryBusy = errors.New("an agent is running with this history")
)

// History is the record of a conversation. It only grows, and an append costs
// only the size of the new messages, however long the record is. A history made
// by [OpenHistory] is also kept in a file, and one made by [LoadHistory] in a
// store of the caller's own, such as a database.
//
// There are three views of it. [History.Messages] is everything that was said.
// [History.Conversation] is the form that a model is sent, which is the same for
// a conversation that was neither interrupted nor compacted. [History.Entries] also tells
// what is known about the messages, such as when a run ended and how. All return
// copies, and Append copies its arguments: changing a message afterwards does not
// change the history.
//
// A History is safe for concurrent use.
type History struct {
	writing sync.Mutex // held by whoever changes the record and its store; acquired before mu
	store   *storeLink // nil for a history in memory; guarded by writing

	mu       sync.Mutex     // guards the fields below
	entries  []HistoryEntry // views share the arrays: their elements never change
	count    int            // how many of them are messages
	looked   int            // of how many entries it was decided whether their texts stay in memory
	evicted  int            // how many messages' texts only the file has
	legal    conversation
	repairs  []string
	told     int // how many of the repairs an agent has reported
	closed   bool
	reserved bool // a current run has the exclusive right to append
}

// NewHistory returns a history in memory that begins with msgs. Messages that
// have no JSON form are left out; [History.Repairs] names them.
func NewHistory(msgs ...Message) *History {
	h := &History{}
	for i, m := range msgs {
		encoded, err := encodeForHistory(m)
		if err != nil {
			h.repairs = append(h.repairs, fmt.Sprintf("message %d was left out: %v", i+1, err))
			continue
		}
		h.record(HistoryEntry{Message: encoded})
	}
	return h
}

// OpenHistory returns the history kept in the file at path, which is a JSON
// array of OpenAI chat messages, as the Python Pygent writes it too. A missing
// file is created, readable by its owner only, with its directories.
//
// Each append is one write. A process that is killed at any moment loses at
// most the message it was writing. A damaged file is read around the damage,
// which costs the messages that it touches. The rest is written to the file
// again as a legal conversation: calls whose results are missing are answered,
// and results whose calls are missing become messages of the user.
// [History.Repairs] reports what was done. The damaged file is kept beside it
// as path + ".damaged-" and the time, unless it was only cut off in its last
// message. A file that holds something else is never changed: the error is
// [ErrNotHistory].
//
// What is known about the messages besides, such as how a run ended, is kept in a
// file of its own, path + ".pygent-meta", so that other programs can send what is
// in the file. That file may be lost without harm.
//
// While the history is open, locks on the file, under all its names, and on
// path + ".lock" keep others out: they get [ErrHistoryInUse]. Systems without
// flock or LockFileEx do not lock. If something else replaces, removes or
// changes the file nevertheless, the history notices before its next change. It
// leaves the file as it is and continues, with all its messages, in a new one
// beside it, path + ".continued-" and the time. Repairs reports that too.
//
// Texts that a compaction has left out for the model are in the file alone, so that
// a long run takes no more memory; see [History.Messages].
func OpenHistory(path string) (*History, error) { return openHistoryOn(journal.System, path) }

func openHistoryOn(disk journal.Disk, path string) (*History, error) {
	h := &History{}
	file, err := openHistoryFile(disk, path, h)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, openError(path, err))
	}
	if err := h.load(context.Background(), &storeLink{store: file, file: file}); err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, err)
	}
	return h, nil
}

// openError returns the error of opening the file at path, for callers whose
// messages name the path already.
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

// Append adds messages to the end of the record, with one write for all of
// them. A message without a role, or one that has no JSON form, is an error and
// nothing is added.
//
// When the write fails, the error is returned, but the messages are in the
// record nevertheless, and the next Append, Sync or Close, or run of an agent,
// writes them first.
//
// While a run of an agent uses the history, the error is [ErrHistoryBusy]: a
// message between a call and its result would hide the result from the model.
func (h *History) Append(msgs ...Message) error {
	entries := make([]HistoryEntry, len(msgs))
	for i, m := range msgs {
		entries[i].Message = m
	}
	_, err := h.append(context.Background(), entries, false)
	return err
}

// appendReserved is Append for the run that has reserved the history. added
// reports whether the history has the entry, also if its store does not.
func (h *History) appendReserved(ctx context.Context, e HistoryEntry) (added bool, err error) {
	e.Time, e.Bash = timeOfEntry(), e.Bash.ended()
	return h.append(ctx, []HistoryEntry{e}, true)
}

func timeOfEntry() time.Time { return time.Now().UTC().Round(0) }

// reserve keeps all but the caller from appending, until it calls release.
func (h *History) reserve() (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reserved {
		return nil, ErrHistoryBusy
	}
	h.reserved = true
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reserved = false
	}), nil
}

// append adds entries, which become its own.
func (h *History) append(ctx context.Context, entries []HistoryEntry, byRun bool) (added bool, err error) {
	for i := range entries {
		e := &entries[i]
		if e.Turn != nil || e.Info != nil || e.Compaction != nil || e.Rewind != nil {
			continue
		}
		if e.Message, err = encodeForHistory(e.Message); err != nil {
			return false, fmt.Errorf("append to history: message %d: %w", i+1, err)
		}
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := cmp.Or(bridge.Reassigned(ctx), h.open(byRun)); err != nil {
		return false, fmt.Errorf("append to history: %w", err)
	}
	return true, h.appendEncoded(ctx, entries)
}

// open returns an error if nothing may be added now.
func (h *History) open(byRun bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ErrHistoryClosed
	case h.reserved && !byRun:
		return ErrHistoryBusy
	}
	return nil
}

// appendEncoded adds encoded entries to the record and to the store. The caller holds
// writing.
func (h *History) appendEncoded(ctx context.Context, entries []HistoryEntry) error {
	h.mu.Lock()
	h.record(entries...)
	h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	if slices.ContainsFunc(entries, func(e HistoryEntry) bool { return e.Compaction != nil }) {
		h.evict()
	}
	return nil
}

// record adds encoded entries to the record, and their messages to its legal
// form.
func (h *History) record(entries ...HistoryEntry) {
	last := lastRewind(entries) // what comes before it need not be shown as it was in between
	for i, e := range entries {
		e.Seq = h.nextSeq(&e)
		h.entries = append(h.entries, e)
		h.count += present(e.Message)
		switch {
		case i < last:
		case e.Rewind != nil:
			h.legal = conversation{}
			for _, current := range activeIn(h.entries) {
				h.legal.take(current)
			}
		default:
			h.legal.take(e)
		}
	}
}

// Messages returns everything that was said, as it was said. Of a history in a file
// that was compacted, it reads the file for that, also after Close. Where that does
// not have old texts any more, they are as a compaction leaves them, and Repairs says so.
func (h *History) Messages() []Message { return cloneMessages(messagesOf(h.loadAllBestEffort())) }

// Entries returns everything that the record holds: the messages, as [History.Messages]
// does, with what is known about them, and the marks between them.
func (h *History) Entries() []HistoryEntry {
	entries := slices.Clone(h.loadAllBestEffort())
	for i := range entries {
		entries[i] = entries[i].Clone()
	}
	return entries
}

// allEntries returns the entries for code that only reads. Texts may be evicted; see loadAll.
func (h *History) allEntries() []HistoryEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.entries)
}

// Conversation returns the record as a legal conversation, for sending it to a
// model now. From call to call it only grows at its end, so that providers can
// cache the prefix; only SetSystem changes its beginning, and each [Compaction]
// all but its end.
//
// It differs from [History.Messages] where a provider would refuse the record:
//   - A call without a result gets the result "interrupted; it may have taken
//     effect". A result that comes after such an answer was handed out is not
//     shown any more, so ask when all results are in.
//   - Results stand in the order of their calls, right after them, one each.
//     Results of no call are left out.
//   - Empty and repeated call ids are replaced, in the results as well.
//   - Arguments that are not a JSON object become {}.
//   - Results carry text only. Their images and files follow in one user message.
//     When there are more than 16 of tools, or 8 MiB of them, those before the
//     last 8, or 4 MiB, are replaced by a line that says what was there. So the
//     beginning of the conversation changes once in a while, not at each image.
//   - Messages that say nothing are left out, as are white space and null
//     beside calls.
//
// While a run of an agent goes on, a call that runs is shown as one without a
// result, and its result is recorded and shown nevertheless when it comes.
func (h *History) Conversation() []Message { return cloneMessages(h.shown()) }

// shown is Conversation without the copy. It leaves the calls of a
// current run open, because stand-ins would take the place of their real
// results.
func (h *History) shown() []Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reserved {
		return h.legal.settled()
	}
	h.legal.settle()
	return slices.Clip(h.legal.messages)
}

// toSend returns what a model is sent, for code that only reads. It takes
// constant time, however long the record is. Slices that it returned earlier do
// not change.
func (h *History) toSend() []Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.legal.settle()
	return slices.Clip(h.legal.messages)
}

// answerOpenCalls appends results for the interrupted calls, so that the record
// is legal before the conversation continues with something else.
func (h *History) answerOpenCalls(ctx context.Context) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	results, err := answersToOpenCalls(h.activeEntries())
	if err != nil || len(results) == 0 || h.open(true) != nil {
		return err
	}
	for i := range results {
		results[i].Time = timeOfEntry()
	}
	return h.appendEncoded(ctx, results)
}

// SetSystem makes text the system message at the beginning of the record, and
// does nothing if it is that already. An empty text removes the message. Views
// handed out earlier keep the old one.
//
// The file of a history is written anew and put in place atomically. When the
// write fails, the record has not changed.
func (h *History) SetSystem(text string) error { return h.setSystem(context.Background(), text) }

func (h *History) setSystem(ctx context.Context, text string) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.open(true); err != nil {
		return fmt.Errorf("set system message: %w", err)
	}
	var system HistoryEntry
	if text != "" {
		m, err := encodeForHistory(SystemMessage(text))
		if err != nil {
			return fmt.Errorf("set system message: %w", err)
		}
		system.Message = m
	}
	all := h.allEntries()
	if before := systemOf(all); before.same(&system.Message) {
		return nil
	}
	if h.store != nil {
		if err := h.store.setSystem(ctx, all, system); err != nil {
			return fmt.Errorf("set system message: %w", err)
		}
	}
	h.replaceSystem(system)
	return nil
}

// Len returns the number of messages in the record.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// messageCount is Len without the system message.
func (h *History) messageCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count - present(systemOf(h.entries))
}

// Repairs describes what opening the history repaired, what was lost, and what
// something else did to the file since. It is empty if nothing was wrong.
func (h *History) Repairs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.repairs)
}

// newRepairs returns the repairs that it has not returned before, for reporting
// each once.
func (h *History) newRepairs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	repairs := h.repairs[h.told:]
	h.told = len(h.repairs)
	return repairs
}

// Sync writes what could not be written before and flushes the file to stable
// storage. Without it, appends survive a crash of the process, but not one of
// the machine. In memory it does nothing.
func (h *History) Sync() error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.store == nil || h.open(true) != nil {
		return nil
	}
	if err := h.store.sync(context.Background(), h.allEntries()); err != nil {
		return fmt.Errorf("sync history: %w", err)
	}
	return nil
}

// Close writes what could not be written before, and releases the file of
// [OpenHistory]. It leaves the store of [LoadHistory] open, which is the
// caller's. The history can still be read, but not changed. Closing again does
// nothing.
func (h *History) Close() error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.open(true) != nil {
		return nil
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	if h.store == nil {
		return nil
	}
	if err := h.store.close(context.Background(), h.allEntries()); err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
}

// Current returns the entries that the conversation consists of: as
// [History.Entries], but without those that a [Rewind] has taken out of effect,
// and without the rewinds.
func (h *History) Current() []HistoryEntry {
	entries := slices.Clone(activeIn(h.loadAllBestEffort()))
	for i := range entries {
		entries[i] = entries[i].Clone()
	}
	return entries
}

// activeEntries is Current for code that only reads. Texts may be evicted; see loadAll.
func (h *History) activeEntries() []HistoryEntry { return activeIn(h.allEntries()) }

// indexOf returns the index of an entry among the messages of the record.
func (h *History) indexOf(seq int64) (index int) {
	for _, e := range h.allEntries() {
		if e.Seq < seq && !e.IsMark() {
			index++
		}
	}
	return index
}

// activeMessages returns the messages of the conversation for code that only reads, and that
// needs no texts of old messages.
func (h *History) activeMessages() []Message { return messagesOf(h.activeEntries()) }

// activeMessageEntries returns the entries of the messages, as activeMessages does.
func (h *History) activeMessageEntries() []HistoryEntry {
	return saidIn(h.activeEntries())
}

// saidIn are the entries that are messages.
func saidIn(all []HistoryEntry) []HistoryEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e HistoryEntry) bool { return e.IsMark() })
}

// activeCount is how many messages the conversation consists of, without the system
// message.
func (h *History) activeCount() (n int) {
	for _, e := range h.activeEntries() {
		if !e.IsMark() && e.Message.Role != RoleSystem {
			n++
		}
	}
	return n
}

// nextSeq returns the number of an entry that is to be added. An entry that a
// store had keeps its own, unless that does not follow.
func (h *History) nextSeq(e *HistoryEntry) int64 {
	if len(h.entries) == 0 {
		return max(e.Seq, int64(1-present(systemOf([]HistoryEntry{*e}))))
	}
	return max(e.Seq, h.entries[len(h.entries)-1].Seq+1)
}

// replaceSystem puts an encoded system message in the place of the one at the
// beginning, in new arrays. One without a role removes it.
func (h *History) replaceSystem(system HistoryEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := systemOf(h.entries)
	shown := 0 // how many system messages begin the legal form
	if old.Role != "" && !old.IsEmpty() {
		shown = 1
	}
	h.entries = withSystem(h.entries, system)
	more := present(system.Message) - present(old)
	h.count, h.looked = h.count+more, max(h.looked+more, 0)
	var head []Message
	if system.Message.Role != "" && !system.Message.IsEmpty() {
		head = []Message{system.Message}
	}
	h.legal.replaceHead(shown, head)
}

// Info describes the history: what was last given to SetInfo, and the times.
func (h *History) Info() HistoryInfo {
	var info HistoryInfo
	var created, updated time.Time
	for _, e := range h.allEntries() {
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

// Check returns why a history does not take the message, or nil.
func (m Message) Check() error {
	_, err := encodeForHistory(m)
	return err
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
	return m.Clone().encoded()
}
