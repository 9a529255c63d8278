package pygent

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

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
