package chat

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// evicted is what is known of a message whose text only the history's file has. In
// memory is what a compaction leaves of it, which is what the model is sent at most.
// The history's writing guards it.
type evicted struct {
	digest string // identifies the message in the file
}

// What evict does.
const (
	leastEvicted = 256      // a message that would free less, in bytes, stays
	endStays     = 16       // entries at the end always stay: whoever resumes reads them
	leastTurn    = 64 << 10 // what is evicted at once, in bytes, since it copies the entries
)

// evict leaves to the file the texts of messages that a compaction has made
// shorter for the model. So a long run takes no more memory than a short one. It
// does nothing unless the file has all entries. The caller holds writing.
func (h *History) evict() {
	if h.store == nil || h.store.file == nil || h.store.unsure || h.store.file.behind {
		return
	}
	all := h.allEntries()
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
	n := 0
	for i := h.looked; i < end; i++ {
		if m, ok := remainder(all[i]); ok {
			less[i].Message = m
			n++
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries, h.looked, h.evicted = less, end, h.evicted+n
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
		if !all[end-1].IsMark() {
			keep--
		}
	}
	last := len(all) - 1 // the last exchange stays
	for last > 0 && (all[last].IsMark() || all[last].Message.Role == RoleTool) {
		last--
	}
	return max(min(end, last, len(all)-endStays), 0)
}

// remainder returns what stays of a message in memory. What the user said stays, since
// summaries quote it, and so does what the file would not give back as it was.
func remainder(e HistoryEntry) (Message, bool) {
	m := e.Message
	if m.enc == nil || m.enc.evicted != nil || m.enc.size < leastEvicted ||
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
	if err != nil || small.enc.size+leastEvicted > m.enc.size || !readsBack(m) {
		return m, false
	}
	left.enc = &encodedMessage{evicted: &evicted{digest: digestOf(m)}}
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

// reload reads the texts that only the file has, since some may be sent again.
// The caller holds writing.
func (h *History) reload() error {
	h.mu.Lock()
	all, n := slices.Clip(h.entries), h.evicted
	h.mu.Unlock()
	if n == 0 {
		return nil
	}
	whole, _, err := h.store.file.readBack(all) // what is lost stays as the model was last sent it
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries, h.looked, h.evicted = whole, 0, 0
	return nil
}

// loadAll returns all entries with their texts, for code that only reads. Messages
// whose texts the file does not give back are as a compaction leaves them; then
// there is an error.
func (h *History) loadAll() ([]HistoryEntry, error) {
	h.mu.Lock()
	all, n := slices.Clip(h.entries), h.evicted
	h.mu.Unlock()
	if n == 0 {
		return all, nil
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	file := h.store.file
	whole, lost, err := file.readBack(h.allEntries())
	if err == nil && lost > 0 {
		err = errLost(lost)
	}
	return whole, err
}

// loadAllBestEffort is loadAll for methods that return no error: Repairs has it.
func (h *History) loadAllBestEffort() []HistoryEntry {
	all, err := h.loadAll()
	note := ""
	if err != nil {
		note = "old messages are shown shortened, as the model has them: " + err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if note != "" && !slices.Contains(h.repairs, note) {
		h.repairs = append(h.repairs, note)
	}
	return all
}

func errLost(messages int) error {
	return fmt.Errorf("the full texts of %d old messages are no longer in the file: %w", messages, ErrHistoryChanged)
}

// readBack returns entries with the texts that only the file has. lost is how many
// it does not have any more; those are as a compaction leaves them, and so are all
// when there is an error.
func (f *historyFile) readBack(entries []HistoryEntry) (whole []HistoryEntry, lost int, err error) {
	wanted := map[string]*Message{}
	for i := range entries {
		if enc := entries[i].Message.enc; enc != nil && enc.evicted != nil {
			wanted[enc.evicted.digest] = nil
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
		if m.enc == nil || m.enc.evicted == nil {
			continue
		}
		if there := wanted[m.enc.evicted.digest]; there != nil {
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
		if enc := entries[i].Message.enc; enc != nil && enc.evicted != nil {
			enc.evicted.digest = digestOf(whole[i].Message)
		}
	}
	f.tell(errLost(lost).Error() + "; they go on as the model was last sent them")
}
