package checkpoint

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/x/pygent/internal/numeral"
)

// Undone returns the checkpoint before the last turns, as many as said, that are in
// effect.
func (b *Book) Undone(turns int) (Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	starts := b.starts()
	switch {
	case len(starts) == 0:
		return Entry{}, ErrNothingToUndo
	case turns < 1 || turns > len(starts):
		return Entry{}, &fewerError{turns, len(starts)}
	}
	return b.seen[starts[turns-1]], nil
}

// fewerError says that there are fewer turns than were asked for.
type fewerError struct{ asked, there int }

func (e *fewerError) Error() string {
	return fmt.Sprintf("there are checkpoints of the last %s only, and not of %d", numeral.Count(e.there, "turn"), e.asked)
}

// Unwrap says what it is one of.
func (*fewerError) Unwrap() error { return ErrNothingToUndo }

// Redone returns the checkpoint before the last restore that took turns back, if
// nothing was done since.
func (b *Book) Redone() (Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := b.before(len(b.seen)); at >= 0; {
		switch e := b.seen[at]; {
		case e.Kind == Restored && e.Undo:
			if from := b.at(e.From); from >= 0 {
				return b.seen[from], nil
			}
			return Entry{}, ErrNothingToRedo
		case e.Kind == Restored:
			at = b.at(e.To)
		case e.Kind == Before:
			at = b.before(at)
		default:
			return Entry{}, ErrNothingToRedo
		}
	}
	return Entry{}, ErrNothingToRedo
}

// before returns the index of the checkpoint before an index in the log, or -1.
func (b *Book) before(at int) int {
	for at--; at >= 0 && !b.seen[at].isCheckpoint(); at-- {
	}
	return at
}

// parent returns the index of the entry of files from which one came about, or -1: that
// before it, or that to which a restore led.
func (b *Book) parent(at int) int {
	if b.seen[at].Kind == Restored {
		return b.at(b.seen[at].To)
	}
	for at--; at >= 0 && !b.seen[at].hasFiles(); at-- {
	}
	return at
}

// latest returns the index of the last entry of files, or -1.
func (b *Book) latest() int {
	for at := len(b.seen) - 1; at >= 0; at-- {
		if b.seen[at].hasFiles() {
			return at
		}
	}
	return -1
}

// starts returns the indexes of the starts of turns in effect, the last one first.
func (b *Book) starts() (starts []int) {
	after := -1
	for at := b.before(len(b.seen)); at >= 0; {
		if b.seen[at].Kind == Start && !b.isSilent(at, after) {
			starts = append(starts, at)
		}
		restored := b.seen[at].Kind == Restored
		after, at = at, b.parent(at)
		if restored && at >= 0 && b.seen[at].Kind == Start {
			after, at = at, b.parent(at) // its turn was taken back
		}
	}
	return starts
}

// isSilent reports whether nothing was said between two checkpoints of a chain: the
// message of the turn was not recorded.
func (b *Book) isSilent(at, after int) bool {
	return after >= 0 && b.seen[at].Messages == b.seen[after].Messages && bytes.Equal(b.seen[at].Place, b.seen[after].Place)
}

// step is a change that a restore makes to the files.
type step struct {
	from, to int // indexes
	only     []string
	not      []string
	but      []string // repositories, which are not left alone
}

// isWhole reports whether all that differs is changed.
func (s step) isWhole() bool { return s.only == nil && s.not == nil }

// steps returns what leads from one checkpoint to another: the turns of the agent are
// taken back until a checkpoint that both have come from, and made again from there.
// What the user has changed in between is no step, so it stays. back says that none
// is made again. Where the oldest checkpoints were dropped, there may be no such
// checkpoint: then it is a single step.
func (b *Book) steps(from, to int) (steps []step, back bool) {
	dir, top := b.seen[to].Dir, b.ancestor(from, to)
	if top < 0 {
		return []step{{from: from, to: to}}, false
	}
	var again []step
	for at := to; at != top; at = b.parent(at) {
		again = b.turn(again, step{from: b.parent(at), to: at}, dir)
	}
	for at := from; at != top; at = b.parent(at) {
		steps = b.turn(steps, step{from: at, to: b.parent(at)}, dir)
	}
	for _, s := range slices.Backward(again) {
		steps = append(steps, s)
	}
	return b.joined(steps), top == to
}

// ancestor returns the index of the last entry of files that two have come from, or -1.
func (b *Book) ancestor(one, other int) int {
	above := map[int]bool{}
	for at := one; at >= 0; at = b.parent(at) {
		above[at] = true
	}
	for other >= 0 && !above[other] {
		other = b.parent(other)
	}
	return other
}

// turn adds a step between a checkpoint and its parent, if the agent made what
// differs, in the files of a directory.
func (b *Book) turn(steps []step, s step, dir string) []step {
	parent, at := min(s.from, s.to), max(s.from, s.to)
	if parent < 0 || !b.byAgent(parent, at) || b.seen[parent].Dir != dir || b.seen[at].Dir != dir {
		return steps
	}
	s.only, s.not = b.seen[at].Only, b.seen[at].Not
	return append(steps, s)
}

// joined makes one step of those between which nobody has changed anything.
func (b *Book) joined(steps []step) (all []step) {
	for _, s := range steps {
		if n := len(all); n > 0 && b.seen[all[n-1].to].Tree == b.seen[s.from].Tree && s.isWhole() && all[n-1].isWhole() {
			all[n-1].to = s.to
			continue
		}
		all = append(all, s)
	}
	return all
}

// byAgent reports whether what differs between a checkpoint and its parent was
// changed by the agent.
func (b *Book) byAgent(parent, at int) bool {
	e, before := &b.seen[at], b.seen[parent].Kind
	return (before == Start || before == Resumed || before == call) && e.Kind != Restored && !e.Others
}

// AtWork reports whether the last checkpoint is one that the agent's work follows:
// in a book that was just opened, the process died in the middle of a turn.
func (b *Book) AtWork() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.latest()
	return last >= 0 && (b.seen[last].Kind == Start || b.seen[last].Kind == Resumed || b.seen[last].Kind == call)
}
