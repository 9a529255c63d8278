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

// Self is this process as an owner, with the means to prove what is its own and
// to check the proofs of others. It may be used by several goroutines.
type Self struct {
	process
	key   []byte
	state *state // nil when the key is of this process alone
	err   error
}

// Here is this process, with the key and the records of its user.
var Here = sync.OnceValue(func() *Self {
	dir, err := stateDir()
	if err != nil {
		return alone(ThisPlace(), err)
	}
	return Open(dir, ThisPlace())
})

// Open returns this process in a place, with what is kept in a directory, which
// is made. Where that cannot be trusted, or written, the process has a key of
// its own, so that nothing of others is proved to it, and [Self.Err] says why.
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
	s := &Self{key: make([]byte, keySize), err: fmt.Errorf("nothing can be proved to be this user's: %w", err)}
	_, _ = rand.Read(s.key) // it does not fail
	s.Place = at
	s.pid, s.start = current()
	return s
}

// Err tells why nothing that another process made is proved to this one.
func (s *Self) Err() error { return s.err }

// Name names this process as an owner.
func (s *Self) Name() string { return s.process.String() }

// StateOf tells of an owner with a name whether it lives.
func (s *Self) StateOf(name string) State {
	p, ok := parse(name)
	if !ok {
		return Unknown
	}
	return p.stateOf(s.Place, func(boot string) bool {
		return s.state != nil && s.state.hasBoot(Place{Machine: p.Machine, Boot: boot})
	})
}

// Installation is an id of this user's key. It proves nothing.
func (s *Self) Installation() string { return s.Proof("installation")[:16] }

// Proof returns a code over facts that nobody can make without the key.
func (s *Self) Proof(facts ...string) string {
	code := hmac.New(sha256.New, s.key)
	for _, fact := range facts {
		code.Write(binary.AppendUvarint(nil, uint64(len(fact)))) // so that no two lists read the same
		code.Write([]byte(fact))
	}
	return hex.EncodeToString(code.Sum(nil))
}

// Proves reports whether a proof is of these facts and made with this user's key.
func (s *Self) Proves(proof string, facts ...string) bool {
	return hmac.Equal([]byte(proof), []byte(s.Proof(facts...)))
}

// fileFacts are what the proof of a file names.
func fileFacts(name, owner string) []string { return []string{"file", name, owner} }

// Note returns what a file says that makes a directory with a name this process's.
func (s *Self) Note(name string) []byte {
	return []byte(s.Name() + "\n" + s.Proof(fileFacts(name, s.Name())...) + "\n")
}

// MaxNote bounds what a note may be long, in bytes.
const MaxNote = maxName + 128

// ReadNote returns the owner that a note in a directory with a name tells of, and
// whether it is proved.
func (s *Self) ReadNote(note []byte, name string) (owner string, proved bool) {
	owner, proof, _ := strings.Cut(string(note), "\n")
	return owner, s.Proves(strings.TrimSuffix(proof, "\n"), fileFacts(name, owner)...)
}

// MarkSaved records that nothing is lost with a volume, which could not be
// removed.
func (s *Self) MarkSaved(volume string) error {
	if s.state == nil {
		return s.err
	}
	return s.state.mark(savedDir, volume)
}

// Saved reports whether nothing is lost with a volume.
func (s *Self) Saved(volume string) bool { return s.state != nil && s.state.marked(savedDir, volume) }

// Forget removes the record of a volume that is no more.
func (s *Self) Forget(volume string) {
	if s.state != nil {
		s.state.unmark(savedDir, volume)
	}
}
