// Package loopdetect detects models that are caught in a loop: a [Finder] finds an agent
// that repeats the same tool calls, or whose calls all fail, and a [TextFinder] a text that
// repeats itself without end while it arrives.
package loopdetect

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"strings"
)

// The number of repetitions at which the model should be told, and the number
// at which the agent counts as stuck.
const (
	Told  = 3
	Stuck = 5
)

// The same for two or three calls in turn of which some go well: they may be work that
// looks alike for a while. So may one that asks for the state of something that runs
// elsewhere, which has not changed yet.
const (
	InTurnTold  = 6
	InTurnStuck = 10
)

// The same where a call waits, as for a build that is watched: that nothing has changed yet
// is what a wait begins with.
const (
	WaitsTold  = 10
	WaitsStuck = 20
)

// waits matches a call that waits: the arguments of a command, as JSON, or a tool that is
// called so or has an argument for it.
var waits = regexp.MustCompile(strings.Join([]string{
	begins + `sleep(\s|\\t)+[\d$"'.{\\]`,
	`--(wait|watch|follow)\b`,
	begins + clients + `\s` + inCommand + `\b(wait|watch|rollout\s+status)\b`,
	begins + `(tail|logs|journalctl)\s(` + inCommand + `\s)?-[a-zA-Z]*[fF]\b`,
	`^[^\x00]*(?i:sleep|wait)[^\x00]*\x00`,
	`"(sleep|wait)\w*":\s*[\d"]`,
}, "|"))

// asks matches a command that asks for the state of something that runs elsewhere.
var asks = regexp.MustCompile(begins + `((curl|wget|nc|ping|pg_isready)\s|` + clients + `\s` + inCommand + `\b(ps|get|describe|status|logs|inspect|view|list|ls|checks|show|is-active|api)\b)`)

// Parts of the patterns for commands. In JSON a line begins behind the letters \n.
const (
	begins    = `(\\[nt]|\b)`
	clients   = `(kubectl|oc|docker|podman|gh|glab|aws|gcloud|az|systemctl)`
	inCommand = `[^;|&"\\]*?`
)

// The number of calls in a row that fail, whatever they are, after each of which the model
// should be told, and the number at which the agent counts as stuck.
const (
	FailuresTold  = 5
	FailuresStuck = 15
)

// maxCycle is the length, in calls, of the longest cycle that is detected.
const maxCycle = 3

// Finder remembers the last tool calls of a run. The zero Finder is ready to
// use. It is not safe for concurrent use.
type Finder struct {
	recent   []entry  // at most maxCycle*WaitsStuck, the latest last
	calls    []string // the last maxCycle of them: what they are matters only if they repeat
	stuck    bool     // the last calls repeat too often
	failures int      // in a row
	told     int      // the step after which the model was told of them first
}

type entry struct {
	call, result [sha256.Size]byte
	failed       bool
}

// Found describes a cycle: the last Calls calls were made Times times in a row,
// in the same order and with the same results.
type Found struct{ Calls, Times int }

// Note adds a call, a tool's name and its arguments with a NUL between, with its result. If
// the last calls repeat so often that the model should be told, it returns the shortest
// cycle among them. One call that keeps giving one result is a cycle, as are two or three
// in turn; it depends on what they are how soon.
func (l *Finder) Note(call, result string, failed bool) (Found, bool) {
	l.recent = append(l.recent, entry{sha256.Sum256([]byte(call)), sha256.Sum256([]byte(result)), failed})
	l.recent = l.recent[max(0, len(l.recent)-maxCycle*WaitsStuck):]
	l.calls = append(l.calls, call)
	l.calls = l.calls[max(0, len(l.calls)-maxCycle):]
	l.stuck = false
	for calls := 1; calls <= maxCycle; calls++ {
		times := l.times(calls)
		if times < Told { // the lowest bound of all
			continue
		}
		if told, stuck := l.bounds(calls); times >= told {
			l.stuck = times >= stuck
			return Found{Calls: calls, Times: min(times, stuck)}, true
		}
	}
	return Found{}, false
}

// Stuck reports whether the cycle that Note found last was repeated too often.
func (l *Finder) Stuck() bool { return l.stuck }

// bounds are how often the last calls may be repeated.
func (l *Finder) bounds(calls int) (told, stuck int) {
	last := l.calls[max(0, len(l.calls)-calls):]
	switch {
	case slices.ContainsFunc(last, waits.MatchString):
		return WaitsTold, WaitsStuck
	case (calls == 1 || l.AllFailed(calls)) && !asks.MatchString(last[len(last)-1]):
		return Told, Stuck
	}
	return InTurnTold, InTurnStuck
}

// Failed counts a call of a step that failed, or one that went well, and returns how many
// have failed in a row, if that is a number of which the model should be told; otherwise 0.
// The model is stuck if it goes on so in a later step than the one after which it was told.
func (l *Finder) Failed(failed bool, step int) (inARow int, stuck bool) {
	if l.failures++; !failed {
		l.failures = 0
	}
	switch {
	case l.failures == 0 || l.failures%FailuresTold != 0:
		return 0, false
	case l.failures == FailuresTold:
		l.told = step
	}
	return l.failures, l.failures >= FailuresStuck && step > l.told
}

// times returns how many times in a row the last sequence of the given number
// of calls was made.
func (l *Finder) times(calls int) int {
	same := 0
	for i := len(l.recent) - 1; i >= calls && l.recent[i] == l.recent[i-calls]; i-- {
		same++
	}
	return 1 + same/calls
}

// AllFailed reports whether the last calls failed.
func (l *Finder) AllFailed(calls int) bool {
	for _, e := range l.recent[max(0, len(l.recent)-calls):] {
		if !e.failed {
			return false
		}
	}
	return true
}
