// Package owner tells which process something belongs to, and proves it, so
// that what a dead process left behind can be told from what a living one uses,
// and what pygent made from what merely looks like it.
//
// Three questions are apart. Was it made by this user's pygent? A proof says
// so: a code over its name and what it tells of itself, made with a key that
// only this user can read. Was it made on this machine? The name of its owner
// says so. Is its owner dead? The kernel says so. Whatever cannot be answered
// is unknown, and unknown is never dead.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

// Place is where a process runs. Empty fields are not known.
type Place struct {
	Host      string // the machine's name, which other machines may have as well
	Machine   string // the machine's id
	Boot      string // changes with every start of the machine
	Namespace string // in which process ids and start times mean something
}

// maxName bounds the name of an owner: anybody may have written it.
const maxName = 512

// process names a process in its place. The start time tells it from a later
// process with the same number.
type process struct {
	Place
	pid   int
	start string
}

func (p process) String() string {
	return strings.Join([]string{p.Host, p.Machine, p.Boot, p.Namespace, strconv.Itoa(p.pid), p.start}, "/")
}

// parse reads the name of an owner.
func parse(name string) (process, bool) {
	fields := strings.Split(name, "/")
	if len(name) > maxName || len(fields) != 6 {
		return process{}, false
	}
	pid, err := strconv.Atoi(fields[4])
	return process{Place{fields[0], fields[1], fields[2], fields[3]}, pid, fields[5]}, err == nil && pid > 0
}

// Describe tells people of the owner with a name. The name may be anybody's: what
// cannot be printed is escaped, and the length is bounded.
func Describe(name string) string {
	if p, ok := parse(name); ok {
		return fmt.Sprintf("process %d on %s", p.pid, Printable(p.Host))
	}
	if old := strings.Split(name, "/"); len(old) == 5 && len(name) <= maxName { // of earlier versions
		return fmt.Sprintf("process %s on %s", Printable(old[3]), Printable(old[0]))
	}
	return `an owner that says "` + Printable(name) + `"`
}

// Printable returns a text on one line and of bounded length, in which what is
// not printed as it is, is escaped.
func Printable(text string) string {
	const most = 200
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "..."
	}
	quoted := strconv.QuoteToGraphic(text)
	return quoted[1:len(quoted)-1] + cut
}

// ThisPlace is where this process runs.
func ThisPlace() Place {
	p := Place{Machine: machineID(), Boot: bootID(), Namespace: namespace()}
	if host, err := os.Hostname(); err == nil && !strings.ContainsAny(host, "/\n") {
		p.Host = host
	}
	return p
}

// stateOf looks at a process from a place. wasHere tells whether this machine was
// seen running at an earlier boot.
func (p process) stateOf(from Place, wasHere func(boot string) bool) State {
	if p.Boot == "" || from.Boot == "" {
		return Unknown
	}
	if p.Boot != from.Boot {
		same := p.Machine != "" && p.Machine == from.Machine && p.Host == from.Host
		if same && wasHere(p.Boot) {
			return Dead // the machine has been started anew since
		}
		return Unknown
	}
	if p.Namespace == "" || p.Namespace != from.Namespace || p.start == "" {
		return Unknown
	}
	return look(p.pid, p.start)
}
