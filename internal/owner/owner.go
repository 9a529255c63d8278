// Package owner records which process something belongs to, and proves it. So
// what a dead process has left behind can be told from what a living process
// uses, and what pygent made from what only looks like it.
//
// It answers three separate questions. Did this user's pygent make it? A proof
// answers that: a message authentication code over its name and its properties,
// made with a key that only this user can read. Was it made on this machine?
// The name of its owner says so. Is its owner dead? The kernel knows. If a
// question cannot be answered, the owner's state is unknown, and an owner in an
// unknown state is never treated as dead.
//
// With the same key, a process keeps what it has learned for the user's later ones.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// State says whether an owner is alive.
type State int

// The states of an owner.
const (
	Unknown State = iota // it belongs to another machine, or cannot be seen from here
	Alive
	Dead
)

// String names the state.
func (s State) String() string {
	return [...]string{"unknown", "alive", "dead"}[s]
}

// Place is where a process runs. An empty field is unknown.
type Place struct {
	Host      string // the machine's name; other machines may have the same one
	Machine   string // the machine's id
	Boot      string // changes at every boot of the machine
	Namespace string // the namespaces in which process ids and start times are valid
}

// maxName is the longest accepted name of an owner. The name may come from
// anybody.
const maxName = 512

// process identifies a process in its place. The start time distinguishes it
// from a later process with the same id.
type process struct {
	Place
	pid   int
	start string
}

func (p process) String() string {
	return strings.Join([]string{p.Host, p.Machine, p.Boot, p.Namespace, strconv.Itoa(p.pid), p.start}, "/")
}

// parse parses the name of an owner.
func parse(name string) (process, bool) {
	fields := strings.Split(name, "/")
	if len(name) > maxName || len(fields) != 6 {
		return process{}, false
	}
	pid, err := strconv.Atoi(fields[4])
	return process{Place{fields[0], fields[1], fields[2], fields[3]}, pid, fields[5]}, err == nil && pid > 0
}

// Describe describes the owner with the given name for people. The name may
// come from anybody, so unprintable characters are escaped and the length is
// limited.
func Describe(name string) string {
	if p, ok := parse(name); ok {
		return fmt.Sprintf("process %d on %s", p.pid, Printable(p.Host))
	}
	if old := strings.Split(name, "/"); len(old) == 5 && len(name) <= maxName { // a name from an earlier version
		return fmt.Sprintf("process %s on %s", Printable(old[3]), Printable(old[0]))
	}
	return `an owner that says "` + Printable(name) + `"`
}

// Printable returns a text on one line and with limited length. Unprintable
// characters are escaped.
func Printable(text string) string {
	const most = 200
	cut := ""
	if len(text) > most {
		text, cut = text[:most], "..."
	}
	quoted := strconv.QuoteToGraphic(text)
	return quoted[1:len(quoted)-1] + cut
}

// ThisPlace returns the place of this process.
func ThisPlace() Place {
	p := Place{Machine: machineID(), Boot: bootID(), Namespace: namespace()}
	if host, err := os.Hostname(); err == nil && !strings.ContainsAny(host, "/\n") {
		p.Host = host
	}
	return p
}

// stateOf returns the state of a process as seen from a place. wasHere reports
// whether this machine was seen running in an earlier boot.
func (p process) stateOf(from Place, wasHere func(boot string) bool) State {
	if p.Boot == "" || from.Boot == "" {
		return Unknown
	}
	if p.Boot != from.Boot {
		same := p.Machine != "" && p.Machine == from.Machine && p.Host == from.Host
		if same && wasHere(p.Boot) {
			return Dead // the machine has been rebooted since
		}
		return Unknown
	}
	if p.Namespace == "" || p.Namespace != from.Namespace || p.start == "" {
		return Unknown
	}
	return look(p.pid, p.start)
}
