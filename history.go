package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	// ErrHistoryChanged is returned when something else has removed or changed
	// the file of an open history, and the conversation could not be written to
	// a new file either.
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
// by [OpenHistory] is also kept in a file.
//
// There are two views of it. [History.Messages] is everything that was said.
// [History.Conversation] is the form that any provider accepts, which is the
// same for a conversation without interruptions. Both return copies, and Append
// copies its arguments: changing a message afterwards does not change the
// history.
//
// A History is safe for concurrent use.
type History struct {
	mu       sync.Mutex
	messages []Message // views share the array: its elements never change
	legal    conversation
	file     *journal.Record[Message] // nil for a history in memory
	size     int                      // of the messages, in bytes of JSON
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
		h.record(encoded)
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
// While the history is open, locks on the file, under all its names, and on
// path + ".lock" keep others out: they get [ErrHistoryInUse]. Systems without
// flock or LockFileEx do not lock. If something else replaces, removes or
// changes the file nevertheless, the history notices before its next change. It
// leaves the file as it is and continues, with all its messages, in a new one
// beside it, path + ".continued-" and the time. Repairs reports that too.
func OpenHistory(path string) (*History, error) { return openHistoryOn(journal.System, path) }

func openHistoryOn(disk journal.Disk, path string) (*History, error) {
	h := &History{}
	tell := func(note string) { h.repairs = append(h.repairs, note) } // called with the lock held
	file, msgs, err := journal.OpenRecord(disk, path, historyFormat, tell)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, openError(path, err))
	}
	h.file = file
	h.record(msgs...)
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
// record nevertheless, and the next Append, Sync or Close writes them first.
//
// While a run of an agent uses the history, the error is [ErrHistoryBusy]: a
// message between a call and its result would hide the result from the model.
func (h *History) Append(msgs ...Message) error { return h.append(msgs, false) }

// appendReserved is Append for the run that has reserved the history.
func (h *History) appendReserved(msgs ...Message) error { return h.append(msgs, true) }

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

func (h *History) append(msgs []Message, byRun bool) error {
	encoded := make([]Message, len(msgs))
	for i, m := range msgs {
		var err error
		if encoded[i], err = encodeForHistory(m); err != nil {
			return fmt.Errorf("append to history: message %d: %w", i+1, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("append to history: %w", ErrHistoryClosed)
	}
	if h.reserved && !byRun {
		return fmt.Errorf("append to history: %w", ErrHistoryBusy)
	}
	return h.keep(encoded)
}

// keep adds encoded messages to the record and to the file. The caller holds mu.
func (h *History) keep(msgs []Message) error {
	h.record(msgs...)
	if h.file == nil {
		return nil
	}
	if err := h.file.Append(h.messages, msgs); err != nil {
		return fmt.Errorf("append to history: %w", err)
	}
	return nil
}

// record adds encoded messages to the record and to its legal form.
func (h *History) record(msgs ...Message) {
	h.messages = append(h.messages, msgs...)
	for _, m := range msgs {
		if m.enc != nil {
			h.size += len(m.enc.json)
		}
		h.legal.add(m)
	}
}

// bytes returns the size of the record in memory, more or less.
func (h *History) bytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// Messages returns everything that was said, as it was said.
func (h *History) Messages() []Message { return cloneMessages(h.view()) }

// view is Messages without the copy, for code that only reads.
func (h *History) view() []Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.messages)
}

// Conversation returns the record as a legal conversation, for sending it to a
// model now. From call to call it only grows at its end, so that providers can
// cache the prefix; only SetSystem changes its beginning.
//
// It differs from [History.Messages] where a provider would refuse the record:
//   - A call without a result gets the result "interrupted; it may have taken
//     effect". A result that comes after such an answer was handed out is not
//     shown any more, so ask when all results are in.
//   - Results stand in the order of their calls, right after them, one each.
//     Results of no call are left out.
//   - Empty and repeated call ids are replaced, in the results as well.
//   - Arguments that are not a JSON object become {}.
//   - Results carry text only. Their images follow in one user message.
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
func (h *History) answerOpenCalls() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	results, err := answersToOpenCalls(h.messages)
	if err != nil || len(results) == 0 || h.closed {
		return err
	}
	return h.keep(results)
}

// SetSystem makes text the system message at the beginning of the record, and
// does nothing if it is that already. An empty text removes the message. Views
// handed out earlier keep the old one.
//
// A durable history is written anew and put in place atomically; when that
// fails, nothing has changed.
func (h *History) SetSystem(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("set system message: %w", ErrHistoryClosed)
	}
	var head []Message
	if text != "" {
		m, err := encodeForHistory(SystemMessage(text))
		if err != nil {
			return fmt.Errorf("set system message: %w", err)
		}
		head = []Message{m}
	}
	old := 0
	if len(h.messages) > 0 && h.messages[0].Role == RoleSystem {
		if text != "" && h.messages[0].same(head[0]) {
			return nil
		}
		old = 1
	}
	if old == 0 && text == "" {
		return nil
	}
	messages := slices.Concat(head, h.messages[old:])
	shown := 0 // how many system messages begin the legal form
	if old == 1 && !saysNothing(h.messages[0]) {
		shown = 1
	}
	if h.file != nil {
		if err := h.file.Replace(messages); err != nil {
			return fmt.Errorf("set system message: %w", err)
		}
	}
	h.messages = messages
	if len(head) > 0 && saysNothing(head[0]) {
		head = nil
	}
	h.legal.messages = slices.Concat(head, h.legal.messages[shown:])
	return nil
}

// Len returns the number of messages in the record.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.messages)
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil || h.closed {
		return nil
	}
	if err := h.file.Sync(h.messages); err != nil {
		return fmt.Errorf("sync history: %w", err)
	}
	return nil
}

// Close syncs the file and releases it. The history can still be read, but not
// changed. Closing again does nothing.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.file == nil {
		return nil
	}
	if err := h.file.Close(h.messages); err != nil {
		return fmt.Errorf("close history: %w", err)
	}
	return nil
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
	Bytes: func(m Message) []byte { return m.enc.json },
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
