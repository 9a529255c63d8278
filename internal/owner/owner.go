// Package owner tells which process something belongs to, so that what a dead
// process left behind can be told from what a living one uses.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// State says whether an owner lives.
type State int

// The states of an owner.
const (
	Unknown State = iota // it belongs to another machine, or cannot be looked at from here
	Alive
	Dead
)

// String names the state.
func (s State) String() string {
	return [...]string{"unknown", "alive", "dead"}[s]
}

// Current names this process: its machine's name and boot, the namespace of
// its process id, that id, and the time the process started, so that a number
// that is used again is not mistaken for it.
var Current = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || strings.ContainsAny(host, "/ ") {
		host = "localhost"
	}
	pid := os.Getpid()
	return fmt.Sprintf("%s/%s/%s/%d/%s", host, bootID(), namespace(), pid, startTime(pid))
})

// StateOf looks at the owner that Current named, perhaps in another process.
func StateOf(owner string) State {
	theirs, ours := strings.Split(owner, "/"), strings.Split(Current(), "/")
	if len(theirs) != len(ours) || theirs[0] != ours[0] {
		return Unknown
	}
	if theirs[1] != ours[1] {
		return Dead // the machine has been started anew since
	}
	pid, err := strconv.Atoi(theirs[3])
	if err != nil || theirs[2] != ours[2] || theirs[4] == "" {
		return Unknown
	}
	if startTime(pid) == theirs[4] {
		return Alive
	}
	return Dead
}
