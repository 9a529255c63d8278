package pygent

import (
	"context"
	"slices"
)

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
