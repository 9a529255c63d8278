package egress

import (
	"slices"
	"sync"
)

// Use tells of a host that a command wanted to reach.
type Use struct {
	Host    string // empty when further hosts are not told
	Port    int
	Allowed bool
	Reason  string // why it was refused, or cannot be reached
}

// Bounds of what is told, for a command may ask for a million names.
const (
	maxTold    = 100 // hosts while commands run
	maxRefused = 16  // hosts of one command, and as many that cannot be reached
)

// ledger tells of each host once while commands run, and remembers for each
// command what was refused meanwhile, and what could not be reached.
type ledger struct {
	tell func(Use) // may be nil

	mu      sync.Mutex // guards what follows, and the order of calls of tell
	told    map[toldKey]bool
	watches map[*watch]bool
}

// toldKey is what makes two uses the same.
type toldKey struct {
	host    string
	port    int
	allowed bool
}

// watch is what one command did without.
type watch struct{ refused, missed []Use }

// begin opens a watch. The function that it returns closes it.
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

// note takes down a use.
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

// miss takes down that a host which may be reached could not be.
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
