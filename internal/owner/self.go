package owner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Self is this process as an owner. It can prove what belongs to it, and check
// the proofs of others. It is safe for concurrent use.
type Self struct {
	process
	key   []byte
	state *state // nil if the key is only of this process
	err   error
}

// Here returns this process, with the key and the records of its user. Every
// call returns the same Self.
var Here = sync.OnceValue(func() *Self {
	dir, err := stateDir()
	if err != nil {
		return alone(ThisPlace(), err)
	}
	return Open(dir, ThisPlace())
})

// Open returns this process in the given place. Its key and records are kept in
// dir, which is made if need be. If dir cannot be trusted or written, the
// process uses a key that nobody else has. Then nothing that other processes
// made can be proved, and [Self.Err] says why.
func Open(dir string, at Place) *Self {
	kept, err := openState(dir)
	if err != nil {
		return alone(at, err)
	}
	key, err := kept.key()
	if err == nil {
		err = kept.recordBoot(at)
	}
	if err != nil {
		return alone(at, errors.Join(err, kept.root.Close()))
	}
	s := &Self{key: key, state: kept}
	s.Place = at
	s.pid, s.start = current()
	return s
}

func alone(at Place, err error) *Self {
	s := &Self{key: make([]byte, keySize), err: fmt.Errorf("nothing can be verified as this user's: %w", err)}
	_, _ = rand.Read(s.key) // never fails
	s.Place = at
	s.pid, s.start = current()
	return s
}

// Err returns why nothing that other processes made can be proved, or nil if it
// can.
func (s *Self) Err() error { return s.err }

// Name returns the name of this process as an owner.
func (s *Self) Name() string { return s.process.String() }

// StateOf returns the state of the owner with the given name.
func (s *Self) StateOf(name string) State {
	p, ok := parse(name)
	if !ok {
		return Unknown
	}
	return p.stateOf(s.Place, func(boot string) bool {
		return s.state != nil && s.state.hasBoot(Place{Machine: p.Machine, Boot: boot})
	})
}

// Installation returns an id of this user's key. It proves nothing.
func (s *Self) Installation() string { return s.Proof("installation")[:16] }

// Proof returns an authentication code over facts. It cannot be made without
// the key.
func (s *Self) Proof(facts ...string) string {
	code := hmac.New(sha256.New, s.key)
	for _, fact := range facts {
		code.Write(binary.AppendUvarint(nil, uint64(len(fact)))) // so that no two lists have the same encoding
		code.Write([]byte(fact))
	}
	return hex.EncodeToString(code.Sum(nil))
}

// Proves reports whether proof was made over these facts with this user's key.
func (s *Self) Proves(proof string, facts ...string) bool {
	return hmac.Equal([]byte(proof), []byte(s.Proof(facts...)))
}

// fileFacts returns the facts that the proof in a note covers.
func fileFacts(name, owner string) []string { return []string{"file", name, owner} }

// Note returns the content of a file that marks the directory with the given
// name as this process's.
func (s *Self) Note(name string) []byte {
	return []byte(s.Name() + "\n" + s.Proof(fileFacts(name, s.Name())...) + "\n")
}

// MaxNote is the largest size of a note, in bytes.
const MaxNote = maxName + 128

// ReadNote returns the owner that a note in the directory with the given name
// states, and whether that is proved.
func (s *Self) ReadNote(note []byte, name string) (owner string, proved bool) {
	owner, proof, _ := strings.Cut(string(note), "\n")
	return owner, s.Proves(strings.TrimSuffix(proof, "\n"), fileFacts(name, owner)...)
}

// MarkSaved records that a volume holds nothing of value any more. It is used
// if such a volume could not be removed.
func (s *Self) MarkSaved(volume string) error {
	if s.state == nil {
		return s.err
	}
	return s.state.mark(savedDir, volume)
}

// Saved reports whether MarkSaved was called for a volume.
func (s *Self) Saved(volume string) bool { return s.state != nil && s.state.marked(savedDir, volume) }

// Forget removes the record of a volume that is no more.
func (s *Self) Forget(volume string) {
	if s.state != nil {
		s.state.unmark(savedDir, volume)
	}
}
