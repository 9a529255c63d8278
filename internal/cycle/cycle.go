// Package cycle notices an agent that goes round in circles.
package cycle

import "crypto/sha256"

// The repetitions at which a model should be told, and at which it is stuck.
const (
	Told  = 3
	Stuck = 5
)

// maxCycle is how many calls a cycle that is found has at most.
const maxCycle = 3

// Finder remembers the last tool calls of a run. The zero Finder has seen none. It
// belongs to one goroutine.
type Finder struct {
	recent []entry // at most maxCycle*Stuck, the latest last
}

type entry struct {
	call, result [sha256.Size]byte
	failed       bool
}

// Found is what the last calls were: the same Calls in the same order, with
// the same results, Times times in a row.
type Found struct{ Calls, Times int }

// Note adds a call with its result, and returns the shortest cycle that it goes
// on with, if that has come round often enough to be told. One call with one
// result is a cycle whatever the result. Two or three in turn are one when all
// of them fail: calls that succeed may well be a wait for something.
func (l *Finder) Note(call, result string, failed bool) (Found, bool) {
	l.recent = append(l.recent, entry{sha256.Sum256([]byte(call)), sha256.Sum256([]byte(result)), failed})
	l.recent = l.recent[max(0, len(l.recent)-maxCycle*Stuck):]
	for calls := 1; calls <= maxCycle; calls++ {
		if times := l.times(calls); times >= Told && (calls == 1 || l.allFailed(calls)) {
			return Found{Calls: calls, Times: min(times, Stuck)}, true
		}
	}
	return Found{}, false
}

// times returns how often in a row the last calls were the same.
func (l *Finder) times(calls int) int {
	same := 0
	for i := len(l.recent) - 1; i >= calls && l.recent[i] == l.recent[i-calls]; i-- {
		same++
	}
	return 1 + same/calls
}

func (l *Finder) allFailed(calls int) bool {
	for _, e := range l.recent[max(0, len(l.recent)-calls):] {
		if !e.failed {
			return false
		}
	}
	return true
}
