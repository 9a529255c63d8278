// Package boundset is a set of keys that does not grow without bound. What the user
// allowed for a session is stored in one, in a layer that is removed when the session
// ends, whichever sessions began before or after it.
package boundset

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// Most is how many keys a [Set] keeps.
const Most = 1000

// Key stands for some texts, in their order. It has the same size however long
// they are. The zero Key stands for none.
type Key [sha256.Size]byte

// Of returns the key of texts. Other texts have another key, also if they are
// the same when joined.
func Of(texts ...string) (k Key) {
	h := sha256.New()
	for _, text := range texts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(text)))
		h.Write([]byte(text))
	}
	h.Sum(k[:0])
	return k
}

// Set is a set of at most [Most] keys, safe for concurrent use. When it is full,
// the key that was added first is dropped. The zero Set is empty.
type Set struct {
	mu     sync.Mutex
	keys   map[Key]*layer // nil for a key that no layer has
	order  []Key          // as they were added
	layers []*layer       // the newest is the last
}

// layer is what a key belongs to. It has a field so that each has its own address.
type layer struct{ _ byte }

// Layer adds a layer, to which the keys belong that are added until a newer one is
// there. remove takes the layer and its keys out, and may be called again.
func (s *Set) Layer() (remove func()) {
	l := &layer{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.layers = append(s.layers, l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.layers = slices.DeleteFunc(s.layers, func(other *layer) bool { return other == l })
		s.order = slices.DeleteFunc(s.order, func(k Key) bool { return s.keys[k] == l })
		for k, of := range s.keys {
			if of == l {
				delete(s.keys, k)
			}
		}
	}
}

// Add adds a key, unless it is the zero Key.
func (s *Set) Add(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.keys[k]; has || k == (Key{}) {
		return
	}
	if s.keys == nil {
		s.keys = map[Key]*layer{}
	}
	if len(s.order) == Most {
		delete(s.keys, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	s.keys[k] = nil
	if len(s.layers) > 0 {
		s.keys[k] = s.layers[len(s.layers)-1]
	}
	s.order = append(s.order, k)
}

// Has reports whether a key is in the set.
func (s *Set) Has(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.keys[k]
	return has
}
