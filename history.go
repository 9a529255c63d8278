package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/x/pygent/internal/journal"
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
	ErrHistoryBusy = errors.New("a run of an agent goes on with this history")
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
	away     int            // how many messages' texts only the file has
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

// openHistoryBeside opens a history whose file may lie in a directory that
// commands can write to.
func openHistoryBeside(dirs []string, path string) (*History, error) {
	disk, name, shared, err := journal.Beside(dirs, path)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, err)
	}
	h, err := openHistoryOn(disk, name)
	if err == nil && shared {
		h.repairs = append(h.repairs, fmt.Sprintf("%s is where commands can read and change it; a file outside of the workspace is safer", path))
	}
	return h, err
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
	e.Time = timeOfEntry()
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
	if err := cmp.Or(traceless(ctx), h.open(byRun)); err != nil {
		return false, fmt.Errorf("append to history: %w", err)
	}
	return true, h.keep(ctx, entries)
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

// keep adds encoded entries to the record and to the store. The caller holds
// writing.
func (h *History) keep(ctx context.Context, entries []HistoryEntry) error {
	h.mu.Lock()
	h.record(entries...)
	h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	if slices.ContainsFunc(entries, func(e HistoryEntry) bool { return e.Compaction != nil }) {
		h.putAway()
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
			for _, current := range inEffect(h.entries) {
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
func (h *History) Messages() []Message { return cloneMessages(messagesOf(h.wholeOrLess())) }

// Entries returns everything that the record holds: the messages, as [History.Messages]
// does, with what is known about them, and the marks between them.
func (h *History) Entries() []HistoryEntry {
	entries := slices.Clone(h.wholeOrLess())
	for i := range entries {
		entries[i] = entries[i].clone()
	}
	return entries
}

// shared returns the entries for code that only reads. Texts may be away; see whole.
func (h *History) shared() []HistoryEntry {
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
func (h *History) Conversation() []Message { return cloneMessages(h.shownConversation()) }

// shownConversation is Conversation without the copy. It leaves the calls of a
// current run open, because stand-ins would take the place of their real
// results.
func (h *History) shownConversation() []Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reserved {
		return h.legal.settled()
	}
	h.legal.settle()
	return slices.Clip(h.legal.messages)
}

// conversation is what a model is sent, for code that only reads. It takes
// constant time, however long the record is. Slices that it returned earlier do
// not change.
func (h *History) conversation() []Message {
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
	results, err := answersToOpenCalls(h.current())
	if err != nil || len(results) == 0 || h.open(true) != nil {
		return err
	}
	for i := range results {
		results[i].Time = timeOfEntry()
	}
	return h.keep(ctx, results)
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
	all := h.shared()
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

// spoken is Len without the system message.
func (h *History) spoken() int {
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

// untold returns the repairs that it has not returned before, for reporting
// each once.
func (h *History) untold() []string {
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
	if err := h.store.sync(context.Background(), h.shared()); err != nil {
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
	if err := h.store.close(context.Background(), h.shared()); err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
}

// Rewind is the mark in a history from which the conversation goes on as it was
// earlier, as after [Agent.Restore]. Nothing is removed: the messages that are not
// in effect any more stay in the history, and a later mark may bring them back.
type Rewind struct {
	// Messages is how many messages there were, without the system message at the
	// beginning. The last of them is the last in effect.
	Messages int `json:"messages"`
	// Marks is how many of the compactions and rewinds that follow that message are
	// in effect too.
	Marks int `json:"marks,omitempty"`
	// Of identifies that message, also in a file from which messages were lost.
	Of string `json:"of,omitempty"`
	// Restore is the number of the restore in the log of checkpoints; 0 for none.
	Restore int64 `json:"restore,omitempty"`
}

// Current returns the entries that the conversation consists of: as
// [History.Entries], but without those that a [Rewind] has taken out of effect,
// and without the rewinds.
func (h *History) Current() []HistoryEntry {
	entries := slices.Clone(inEffect(h.wholeOrLess()))
	for i := range entries {
		entries[i] = entries[i].clone()
	}
	return entries
}

// current is Current for code that only reads. Texts may be away; see whole.
func (h *History) current() []HistoryEntry { return inEffect(h.shared()) }

// lastRewind is the index of the last rewind, or -1.
func lastRewind(all []HistoryEntry) int {
	at := len(all) - 1
	for at >= 0 && all[at].Rewind == nil {
		at--
	}
	return at
}

// inEffect returns the entries that the conversation consists of.
func inEffect(all []HistoryEntry) []HistoryEntry {
	if lastRewind(all) < 0 {
		return all
	}
	var current []HistoryEntry
	head := present(systemOf(all))
	for i := len(all) - 1; i >= head; i-- {
		r := all[i].Rewind
		if r == nil {
			current = append(current, all[i])
			continue
		}
		if to, found := r.end(all[:i]); found {
			i = to // exclusive
		}
	}
	slices.Reverse(current)
	return slices.Concat(all[:head], current)
}

// end returns the index behind the last entry that a rewind leaves in effect. It
// finds none if there are fewer messages than it says, and its own is not among
// them.
func (r *Rewind) end(before []HistoryEntry) (end int, found bool) {
	if end, found = r.message(before); !found {
		return 0, false
	}
	marks := r.Marks
	for i := end; i < len(before) && marks > 0 && before[i].isMark(); i++ {
		if before[i].changesConversation() {
			end = i + 1
			marks--
		}
	}
	return end, true
}

// message returns the index behind the last message that a rewind leaves in effect.
func (r *Rewind) message(before []HistoryEntry) (end int, found bool) {
	head := present(systemOf(before))
	if r.Messages <= 0 {
		return head, true
	}
	var ends []int // of the messages
	for i := head; i < len(before); i++ {
		if !before[i].isMark() {
			ends = append(ends, i+1)
		}
	}
	is := func(nth int) bool {
		return nth >= 0 && nth < len(ends) && digestOf(before[ends[nth]-1].Message) == r.Of
	}
	last := r.Messages - 1
	for off := 0; r.Of != "" && off <= max(last, len(ends)); off++ { // where messages were lost or added, it is near
		for _, nth := range []int{last - off, last + off} {
			if is(nth) {
				return ends[nth], true
			}
		}
	}
	if last < len(ends) { // a store may write the same message differently
		return ends[last], true
	}
	return 0, false
}

// changesConversation reports whether a mark changes what the model is sent.
func (e *HistoryEntry) changesConversation() bool { return e.Compaction != nil || e.Rewind != nil }

// place returns the mark that would bring the conversation back to what it is now.
func (h *History) place() Rewind {
	all := h.shared()
	var r Rewind
	at := len(all) - 1
	for ; at >= 0 && all[at].isMark(); at-- {
		if all[at].changesConversation() {
			r.Marks++
		}
	}
	head := present(systemOf(all))
	if at >= head {
		r.Of = digestOf(all[at].Message)
	}
	r.Messages = h.spoken()
	return r
}

// rewind records that the conversation goes on as it was.
func (h *History) rewind(ctx context.Context, mark Rewind) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.open(true); err != nil {
		return err
	}
	if err := h.bringBack(); err != nil {
		return err
	}
	return h.keep(ctx, []HistoryEntry{{Time: timeOfEntry(), Rewind: &mark}})
}

// canRewind reports whether the history has the message at which a rewind ends.
func (h *History) canRewind(mark Rewind) bool {
	_, found := mark.end(h.shared())
	return found
}

// bringBack reads the texts that only the file has, since some may be sent again.
// The caller holds writing.
func (h *History) bringBack() error {
	h.mu.Lock()
	all, put := slices.Clip(h.entries), h.away
	h.mu.Unlock()
	if put == 0 {
		return nil
	}
	whole, _, err := h.store.file.readBack(all) // what is lost stays as the model was last sent it
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries, h.looked, h.away = whole, 0, 0
	return nil
}

// indexOf returns the index of an entry among the messages of the record.
func (h *History) indexOf(seq int64) (index int) {
	for _, e := range h.shared() {
		if e.Seq < seq && !e.isMark() {
			index++
		}
	}
	return index
}

// away is what is known of a message whose text only the history's file has. In
// memory is what a compaction leaves of it, which is what the model is sent at most.
// The history's writing guards it.
type away struct {
	digest string // identifies the message in the file
}

// What putAway does.
const (
	leastAway = 256      // a message that would free less, in bytes, stays
	endStays  = 16       // entries at the end always stay: whoever resumes reads them
	leastTurn = 64 << 10 // what is put away at once, in bytes, since it copies the entries
)

// putAway leaves to the file the texts of messages that a compaction has made
// shorter for the model. So a long run takes no more memory than a short one. It
// does nothing unless the file has all entries. The caller holds writing.
func (h *History) putAway() {
	if h.store == nil || h.store.file == nil || h.store.unsure || h.store.file.behind {
		return
	}
	all := h.shared()
	end := min(compactedEnd(all), h.store.given)
	if end <= h.looked {
		return
	}
	frees := 0
	for i := h.looked; i < end; i++ {
		frees += sizeInJSON(all[i].Message)
	}
	if frees < leastTurn || frees < len(all)*int(unsafe.Sizeof(HistoryEntry{}))/4 {
		return // the copy would cost too much, and little is wasted
	}
	less := slices.Clone(all) // views share the old ones
	put := 0
	for i := h.looked; i < end; i++ {
		if m, ok := putAway(all[i]); ok {
			less[i].Message = m
			put++
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries, h.looked, h.away = less, end, h.away+put
}

// compactedEnd is the index of the entry after the last one of whose text the model
// needs no more.
func compactedEnd(all []HistoryEntry) int {
	mark := len(all) - 1
	for mark >= 0 && all[mark].Compaction == nil && all[mark].Rewind == nil {
		mark--
	}
	if mark < 0 || all[mark].Rewind != nil {
		return 0
	}
	end, keep := mark, all[mark].Compaction.Keep
	for ; end > 0 && keep > 0; end-- {
		if all[end-1].Rewind != nil { // those that stay are among the messages before it
			return 0
		}
		if !all[end-1].isMark() {
			keep--
		}
	}
	last := len(all) - 1 // the last exchange stays
	for last > 0 && (all[last].isMark() || all[last].Message.Role == RoleTool) {
		last--
	}
	return max(min(end, last, len(all)-endStays), 0)
}

// putAway returns what stays of a message in memory. What the user said stays, since
// summaries quote it, and so does what the file would not give back as it was.
func putAway(e HistoryEntry) (Message, bool) {
	m := e.Message
	if m.enc == nil || m.enc.away != nil || m.enc.size < leastAway ||
		m.Role != RoleTool && m.Role != RoleAssistant && !showsMediaOfTools(m) {
		return m, false
	}
	left := shrunk(m, e.Outcome)
	left.Extra = nil
	left.Content = strings.Clone(left.Content)
	for i := range left.ToolCalls {
		call := &left.ToolCalls[i]
		call.Arguments, call.Extra = strings.Clone(call.Arguments), nil
	}
	small, err := left.encoded()
	if err != nil || small.enc.size+leastAway > m.enc.size || !readsBack(m) {
		return m, false
	}
	left.enc = &encodedMessage{away: &away{digest: digestOf(m)}}
	return left, true
}

// readsBack reports whether a message that is read from its JSON is the same one.
func readsBack(m Message) bool {
	back, err := readHistoryMessage(m.enc.text(), true)
	if err != nil || digestOf(back) != digestOf(m) {
		return false
	}
	if !slices.EqualFunc(back.Parts, m.Parts, func(a, b Part) bool { return a.fields() == b.fields() }) {
		return false
	}
	back.Parts, m.Parts = nil, nil // those that were read keep how they were written, too
	return back.same(&m)
}

// view returns the messages of the conversation for code that only reads, and that
// needs no texts of old messages.
func (h *History) view() []Message { return messagesOf(h.current()) }

// said returns the entries of the messages, as view does.
func (h *History) said() []HistoryEntry {
	return saidIn(h.current())
}

// saidIn are the entries that are messages.
func saidIn(all []HistoryEntry) []HistoryEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e HistoryEntry) bool { return e.isMark() })
}

// conversationsIn is how often a new conversation began in some entries.
func conversationsIn(all []HistoryEntry) (n int) {
	for _, e := range all {
		if e.Compaction != nil && e.Compaction.Anew {
			n++
		}
	}
	return n
}

// inEffect is how many messages the conversation consists of, without the system
// message.
func (h *History) inEffect() (n int) {
	for _, e := range h.current() {
		if !e.isMark() && e.Message.Role != RoleSystem {
			n++
		}
	}
	return n
}

// whole returns all entries with their texts, for code that only reads. Messages
// whose texts the file does not give back are as a compaction leaves them; then
// there is an error.
func (h *History) whole() ([]HistoryEntry, error) {
	h.mu.Lock()
	all, put := slices.Clip(h.entries), h.away
	h.mu.Unlock()
	if put == 0 {
		return all, nil
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	file := h.store.file
	whole, lost, err := file.readBack(h.shared())
	if err == nil && lost > 0 {
		err = errLost(lost)
	}
	return whole, err
}

// wholeOrLess is whole for methods that return no error: Repairs has it.
func (h *History) wholeOrLess() []HistoryEntry {
	all, err := h.whole()
	note := ""
	if err != nil {
		note = "old messages are shown as the model has them, without their whole texts: " + err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if note != "" && !slices.Contains(h.repairs, note) {
		h.repairs = append(h.repairs, note)
	}
	return all
}

func errLost(messages int) error {
	return fmt.Errorf("the texts of %d old messages are not in the file any more: %w", messages, ErrHistoryChanged)
}

// readBack returns entries with the texts that only the file has. lost is how many
// it does not have any more; those are as a compaction leaves them, and so are all
// when there is an error.
func (f *historyFile) readBack(entries []HistoryEntry) (whole []HistoryEntry, lost int, err error) {
	wanted := map[string]*Message{}
	for i := range entries {
		if enc := entries[i].Message.enc; enc != nil && enc.away != nil {
			wanted[enc.away.digest] = nil
		}
	}
	if len(wanted) == 0 {
		return entries, 0, nil
	}
	found, err := f.file.Elements()
	if err != nil {
		err = fmt.Errorf("read back old messages: %w", err)
	}
	for i := range found {
		digest := digestOf(found[i])
		if _, ok := wanted[digest]; ok {
			wanted[digest] = &found[i]
		}
	}
	whole = slices.Clone(entries)
	for i := range whole {
		m := &whole[i].Message
		if m.enc == nil || m.enc.away == nil {
			continue
		}
		if there := wanted[m.enc.away.digest]; there != nil {
			*m = *there
			continue
		}
		m.enc = nil
		left, encErr := m.encoded()
		if encErr != nil {
			return nil, 0, encErr
		}
		*m, lost = left, lost+1
	}
	return whole, lost, err
}

// all returns the messages that the journal was given, for writing them anew. Those
// whose texts are lost go on as a compaction has left them.
func (f *historyFile) all() ([]Message, error) {
	entries := f.entries()[:f.given]
	whole, lost, err := f.readBack(entries)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		f.giveUp(entries, whole, lost)
	}
	return messagesOf(whole), nil
}

// giveUp settles that the new file has what is left of lost messages.
func (f *historyFile) giveUp(entries, whole []HistoryEntry, lost int) {
	for i := range entries {
		if enc := entries[i].Message.enc; enc != nil && enc.away != nil {
			enc.away.digest = digestOf(whole[i].Message)
		}
	}
	f.tell(errLost(lost).Error() + "; they go on as the model was last sent them")
}
