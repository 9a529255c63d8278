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
	Reason  string // why it was refused
}

// Bounds of what is told, for a command may ask for a million names.
const (
	maxTold    = 100 // hosts while commands run
	maxRefused = 16  // hosts of one command
)

// ledger tells of each host once while commands run, and remembers for each
// command what was refused meanwhile.
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

// watch is what was refused while one command ran.
type watch struct{ refused []Use }

// begin opens a watch. The function that it returns closes it.
func (l *ledger) begin() (end func() []Use) {
	w := &watch{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watches) == 0 {
		l.told, l.watches = nil, map[*watch]bool{}
	}
	l.watches[w] = true
	return func() []Use {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, w)
		return w.refused
	}
}

// note takes down a use.
func (l *ledger) note(u Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watches {
		if !u.Allowed {
			w.add(u)
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

func (w *watch) add(u Use) {
	known := func(o Use) bool { return o.Host == u.Host && o.Port == u.Port }
	if len(w.refused) < maxRefused && !slices.ContainsFunc(w.refused, known) {
		w.refused = append(w.refused, u)
	}
}
