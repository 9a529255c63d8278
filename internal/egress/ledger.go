package egress

import (
	"slices"
	"sync"
)

// Use describes the attempt of a command to reach a host.
type Use struct {
	Host    string // empty if there are more hosts than are reported
	Port    int
	Allowed bool
	Reason  string // why the host was refused, or could not be reached
	Allow   string // the pattern that would let a refused host be reached; empty if none would
}

// Limits of what is reported, because a command may ask for a million names.
const (
	maxTold    = 100 // hosts reported while commands run
	maxRefused = 16  // refused hosts recorded for one command, and as many unreachable ones
)

// ledger reports each host once while commands run. It also records, for each
// command, which hosts were refused and which could not be reached.
type ledger struct {
	tell func(Use) // may be nil

	mu      sync.Mutex // guards the fields below, and the order of calls of tell
	told    map[toldKey]bool
	watches map[*watch]bool
}

// toldKey identifies uses that are reported only once.
type toldKey struct {
	host    string
	port    int
	allowed bool
}

// watch records what one command could not reach.
type watch struct{ refused, missed []Use }

// begin opens a watch. The returned function closes it.
func (l *ledger) begin() (end func() (refused, missed []Use)) {
	w := &watch{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watches) == 0 {
		l.told, l.watches = nil, map[*watch]bool{}
	}
	l.watches[w] = true
	return func() (refused, missed []Use) {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, w)
		return w.refused, w.missed
	}
}

// note records a use.
func (l *ledger) note(u Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watches {
		if u.Allowed {
			w.missed = slices.DeleteFunc(w.missed, u.sameHost)
		} else {
			w.refused = u.addTo(w.refused)
		}
	}
	key := toldKey{u.Host, u.Port, u.Allowed}
	if l.told[key] || len(l.told) > maxTold || l.tell == nil {
		return
	}
	if l.told == nil {
		l.told = map[toldKey]bool{}
	}
	l.told[key] = true
	if len(l.told) > maxTold {
		u = Use{}
	}
	l.tell(u)
}

// miss records that an allowed host could not be reached.
func (l *ledger) miss(u Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watches {
		w.missed = u.addTo(w.missed)
	}
}

func (u Use) sameHost(o Use) bool { return o.Host == u.Host && o.Port == u.Port }

func (u Use) addTo(list []Use) []Use {
	if len(list) < maxRefused && !slices.ContainsFunc(list, u.sameHost) {
		list = append(list, u)
	}
	return list
}
