package chat

import (
	"context"
	"fmt"
	"slices"
)

// Rewind is the mark in a history from which the conversation goes on as it was
// earlier, as after pygent.Agent.Restore. Nothing is removed: the messages that are not
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

// end returns the index behind the last entry that a rewind leaves in effect. It
// finds none if there are fewer messages than it says, and its own is not among
// them.
func (r *Rewind) end(before []HistoryEntry) (end int, found bool) {
	if end, found = r.message(before); !found {
		return 0, false
	}
	marks := r.Marks
	for i := end; i < len(before) && marks > 0 && before[i].IsMark(); i++ {
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
		if !before[i].IsMark() {
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

// lastRewind is the index of the last rewind, or -1.
func lastRewind(all []HistoryEntry) int {
	at := len(all) - 1
	for at >= 0 && all[at].Rewind == nil {
		at--
	}
	return at
}

// activeIn returns the entries that the conversation consists of.
func activeIn(all []HistoryEntry) []HistoryEntry {
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

// place returns the mark that would bring the conversation back to what it is now.
func (h *History) place() Rewind {
	all := h.allEntries()
	var r Rewind
	at := len(all) - 1
	for ; at >= 0 && all[at].IsMark(); at-- {
		if all[at].changesConversation() {
			r.Marks++
		}
	}
	head := present(systemOf(all))
	if at >= head {
		r.Of = digestOf(all[at].Message)
	}
	r.Messages = h.messageCount()
	return r
}

// canRewind reports whether the history has the message at which a rewind ends.
func (h *History) canRewind(mark Rewind) bool {
	_, found := mark.end(h.allEntries())
	return found
}

// rewind records that the conversation goes on as it was.
func (h *History) rewind(ctx context.Context, mark Rewind) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.open(true); err != nil {
		return err
	}
	if err := h.reload(); err != nil {
		return err
	}
	return h.appendEncoded(ctx, []HistoryEntry{{Time: timeOfEntry(), Rewind: &mark}})
}

// until returns the entries in effect at a mark, with their texts.
func (h *History) until(mark Rewind) ([]HistoryEntry, error) {
	all, err := h.loadAll()
	if err != nil {
		return nil, err
	}
	end, found := mark.end(all)
	if !found {
		return nil, fmt.Errorf("its messages are not in the history: %w", ErrHistoryChanged)
	}
	current := slices.Clone(activeIn(all[:end]))
	for i := range current {
		current[i] = current[i].Clone()
		current[i].Seq = 0
	}
	return slices.DeleteFunc(current, func(e HistoryEntry) bool { return e.IsMark() && e.Compaction == nil }), nil
}
