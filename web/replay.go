package web

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of what a replay keeps.
const (
	maxElements   = 4000     // elements of the log and the panels
	maxReplay     = 16 << 20 // bytes of their HTML
	maxTombstones = 1000     // removals that a page can be told of later
	maxOut        = 8 << 10  // bytes of the end of a running command's output
	maxSaid       = 32       // texts to be read aloud
)

// op is what a page does: it puts, deletes or appends to an element, shows a state or a
// list of sessions, reads a text aloud, looks at the files again, or begins anew.
type op struct {
	Op       string          `json:"op"`
	Session  string          `json:"session,omitempty"`
	At       string          `json:"at,omitempty"`
	Key      string          `json:"key,omitempty"`
	Parent   string          `json:"parent,omitempty"`
	HTML     string          `json:"html,omitempty"`
	Text     string          `json:"text,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Sessions []listed        `json:"sessions,omitempty"`
	Version  int             `json:"version,omitempty"`
	Base     string          `json:"base,omitempty"`
	Can      map[string]bool `json:"can,omitempty"`
}

// replay is what a page shows of a session: its elements in order, with the number of
// the last change of each. A page that was away is told what has changed since the
// number that it knows, and not each step in between; so a slow page costs no memory,
// and applying a change twice does no harm.
//
// Numbers belong to an epoch. A page that knows another one, or a number that is too
// old, begins anew. It is safe for concurrent use.
type replay struct {
	ring func() // tells that there is something new

	mu     sync.Mutex // guards what follows
	epoch  string
	n      int64 // the number of the last change
	order  int64 // of the last element
	byKey  map[string]*element
	recent *list.List // of *element, the last changed one at the end
	bytes  int
	gone   []tombstone
	forgot int64 // the removals up to this number are not known any more
	state  json.RawMessage
	stated int64
	said   []said
	files  int64 // the number of the last hint that files may have changed
}

// element is a part of the page. The elements in it are its children.
type element struct {
	key, parent, html string
	order, n          int64
	put               int64  // the number of the last put
	out               []said // the end of what was appended to it since then
	cut               int64  // the number of the last piece of that that is not kept any more
	children          []string
	place             *list.Element
}

type tombstone struct {
	key string
	n   int64
}

type said struct {
	text string
	n    int64
}

func newReplay(ring func()) *replay {
	r := &replay{ring: ring}
	r.clear()
	return r
}

// clear begins a new epoch, without any elements.
func (r *replay) clear() {
	r.epoch, r.n, r.order = strings.ToLower(rand.Text()[:8]), 0, 0
	r.byKey, r.recent, r.bytes = map[string]*element{}, list.New(), 0
	r.gone, r.forgot, r.state, r.said, r.files = nil, 0, nil, nil, 0
}

// begin makes the pages begin anew, unless they have been told nothing yet: one may be
// there before the session.
func (r *replay) begin() {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n > 0 {
		r.clear()
	}
}

// put puts an element into the page, or replaces the one that has the key, with all
// that is in it.
func (r *replay) put(key, parent, html string) {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	e := r.byKey[key]
	if e == nil {
		r.order++
		e = &element{key: key, parent: parent, order: r.order}
		e.place = r.recent.PushBack(e)
		r.byKey[key] = e
		if p := r.byKey[parent]; p != nil {
			p.children = append(p.children, key)
		}
	} else {
		r.dropChildren(e)
		r.recent.MoveToBack(e.place)
		r.bytes -= len(e.html)
	}
	e.html, e.out, e.cut, e.n, e.put = html, nil, 0, r.n, r.n
	r.bytes += len(html)
	for len(r.byKey) > maxElements || r.bytes > maxReplay {
		if !r.dropOldest(key) {
			break
		}
	}
}

// del removes an element, with all that is in it.
func (r *replay) del(key string) {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byKey[key]; e != nil {
		r.bury(e)
	}
}

// appendOut appends a text to an element.
func (r *replay) appendOut(key, text string) {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[key]
	if e == nil || text == "" {
		return
	}
	r.n++
	e.n = r.n
	e.out = append(e.out, said{text, r.n})
	r.recent.MoveToBack(e.place)
	size := 0
	for i, piece := range slices.Backward(e.out) {
		if size += len(piece.text); size > maxOut && i < len(e.out)-1 {
			e.cut = piece.n
			e.out = slices.Delete(e.out, 0, i+1)
			return
		}
	}
}

// ops returns how a page that knows everything up to a number comes to show the element.
func (e *element) ops(n int64) (ops []op) {
	if e.put > n || e.cut > n {
		ops = append(ops, op{Op: "put", Key: e.key, Parent: e.parent, HTML: e.html})
		n = e.put
	}
	var text strings.Builder
	for _, piece := range e.out {
		if piece.n > n {
			text.WriteString(piece.text)
		}
	}
	if text.Len() > 0 {
		ops = append(ops, op{Op: "out", Key: e.key, Text: text.String()})
	}
	return ops
}

// setState sets what the status line and the header show, if it has changed.
func (r *replay) setState(state any) {
	data, err := json.Marshal(state)
	if err != nil {
		return
	}
	r.mu.Lock()
	same := string(data) == string(r.state)
	if !same {
		r.n++
		r.state, r.stated = data, r.n
	}
	r.mu.Unlock()
	if !same {
		r.ring()
	}
}

// say has pages that look at the session read a text aloud. It is never replayed.
func (r *replay) say(text string) {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.said = append(r.said, said{text, r.n})
	r.said = r.said[max(0, len(r.said)-maxSaid):]
}

// filesChanged tells pages that files may have changed.
func (r *replay) filesChanged() {
	defer r.ring()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.files = r.n
}

// bury removes an element and remembers that. The caller holds mu.
func (r *replay) bury(e *element) {
	r.n++
	r.drop(e)
	if p := r.byKey[e.parent]; p != nil {
		p.children = slices.DeleteFunc(p.children, func(key string) bool { return key == e.key })
	}
	r.gone = append(r.gone, tombstone{e.key, r.n})
	if over := len(r.gone) - maxTombstones; over > 0 {
		r.forgot = r.gone[over-1].n
		r.gone = slices.Delete(r.gone, 0, over)
	}
}

// drop removes an element without a trace. The caller holds mu.
func (r *replay) drop(e *element) {
	r.dropChildren(e)
	r.recent.Remove(e.place)
	r.bytes -= len(e.html)
	delete(r.byKey, e.key)
}

func (r *replay) dropChildren(e *element) {
	for _, key := range e.children {
		if c := r.byKey[key]; c != nil {
			r.drop(c)
		}
	}
	e.children = nil
}

// dropOldest makes room for an element that was put: it removes the part that stands
// first in the log, which of an answer is its first block, so that one that never ends
// is kept to its end. The panels come last. It reports false if there is nothing else.
// The caller holds mu.
func (r *replay) dropOldest(put string) bool {
	var first, oldest *element // the part to remove, and what it is in
	for _, e := range r.byKey {
		if r.byKey[e.parent] != nil || oldest != nil && !e.before(oldest) {
			continue
		}
		if part := r.firstPart(e, put); part != nil {
			first, oldest = part, e
		}
	}
	if first == nil {
		return false
	}
	r.bury(first)
	return true
}

// before reports whether an element goes before another one: the log before the panels,
// the older one before the newer.
func (e *element) before(other *element) bool {
	if log := e.parent == ""; log != (other.parent == "") {
		return log
	}
	return e.order < other.order
}

// firstPart returns the innermost part that stands first in an element, which may be
// the element itself. It is nil if there is nothing in it but one that was put.
func (r *replay) firstPart(e *element, put string) *element {
	if e.key == put {
		return nil
	}
	for _, key := range e.children {
		if part := r.firstPart(r.byKey[key], put); part != nil {
			return part
		}
	}
	if len(e.children) > 0 {
		return nil
	}
	return e
}

// position is where a page is: an epoch and the number in it.
func position(epoch string, n int64) string { return epoch + "." + strconv.FormatInt(n, 10) }

// since returns what a page does that was at a position, and the new position. live
// says that the page was told of everything up to that position as it came; one that
// comes back is not told what to read aloud.
func (r *replay) since(session, at string, live bool) (ops []op, now string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = position(r.epoch, r.n)
	if at == now {
		return nil, now
	}
	epoch, number, _ := strings.Cut(at, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if epoch != r.epoch || err != nil || n < r.forgot || n > r.n {
		ops, n, live = append(ops, op{Op: "reset"}), 0, false
	} else {
		for _, t := range r.gone {
			if t.n > n {
				ops = append(ops, op{Op: "del", Key: t.key})
			}
		}
	}
	ops = append(ops, r.changed(n)...)
	if r.state != nil && (!live || r.stated > n) {
		ops = append(ops, op{Op: "state", State: r.state})
	}
	if live && r.files > n {
		ops = append(ops, op{Op: "files"})
	}
	for _, s := range r.said {
		if live && s.n > n {
			ops = append(ops, op{Op: "say", Text: s.text})
		}
	}
	for i := range ops {
		ops[i].Session = session
	}
	if len(ops) > 0 {
		ops[len(ops)-1].At = now
	}
	return ops, now
}

// changed returns the elements that have changed since a number, in the order of the
// page. The caller holds mu.
func (r *replay) changed(n int64) (ops []op) {
	var changed []*element
	for at := r.recent.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*element)
		if e.n <= n {
			break
		}
		changed = append(changed, e)
	}
	slices.SortFunc(changed, func(a, b *element) int { return cmp.Compare(a.order, b.order) })
	for _, e := range changed {
		ops = append(ops, e.ops(n)...)
	}
	return ops
}

// forgetSaid leaves nothing to be read aloud.
func (r *replay) forgetSaid() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = nil
}
