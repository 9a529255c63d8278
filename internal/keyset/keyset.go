// Package keyset is a set of keys that does not grow without bound. What the user
// allowed for a session is kept in one.
package keyset

import (
	"crypto/sha256"
	"encoding/binary"
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
	mu    sync.Mutex
	keys  map[Key]bool
	order []Key // as they were added
}

// Add adds a key, unless it is the zero Key.
func (s *Set) Add(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == (Key{}) || s.keys[k] {
		return
	}
	if s.keys == nil {
		s.keys = map[Key]bool{}
	}
	if len(s.order) == Most {
		delete(s.keys, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	s.keys[k] = true
	s.order = append(s.order, k)
}

// Has reports whether a key is in the set.
func (s *Set) Has(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[k]
}

// Clear takes all keys out.
func (s *Set) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.order = nil, nil
}
