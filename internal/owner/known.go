package owner

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// knownDir holds what was learned of things that cannot change, such as images: a
// file for each of them.
const knownDir = "known"

// Bounds of what is kept in knownDir.
const (
	// MaxKnown is the largest size of what is kept of one thing, in bytes.
	MaxKnown  = 4 << 10
	mostKnown = 256
	proofSize = 2 * sha256.Size // in hexadecimal
)

// Learn keeps what was learned of a subject for later processes of this user. The
// words have at most [MaxKnown] bytes. Of many subjects, the ones learned of first
// are forgotten.
func (s *Self) Learn(subject string, words []byte) error {
	if s.state == nil {
		return s.err
	}
	if len(words) > MaxKnown {
		return fmt.Errorf("%d bytes are more than %d, which is all that is kept of one subject", len(words), MaxKnown)
	}
	return s.state.learn(knownName(subject), append([]byte(s.Proof(knownFacts(subject, words)...)), words...))
}

// Known returns what a process of this user learned of a subject, or nil. What was
// not written with this user's key, or is damaged, counts as nothing.
func (s *Self) Known(subject string) []byte {
	if s.state == nil {
		return nil
	}
	content := s.state.known(knownName(subject))
	if len(content) < proofSize {
		return nil
	}
	proof, words := content[:proofSize], content[proofSize:]
	if !s.Proves(string(proof), knownFacts(subject, words)...) {
		return nil
	}
	return words
}

// knownFacts are the facts that the proof of what was learned covers.
func knownFacts(subject string, words []byte) []string {
	return []string{"known", subject, string(words)}
}

// knownName is the name of a subject's file. A subject may have words of strangers.
func knownName(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(sum[:])
}

// learn gives a file its name only once it is complete.
func (s *state) learn(name string, content []byte) error {
	if err := s.root.MkdirAll(knownDir, 0o700); err != nil {
		return err
	}
	temp := knownDir + "/" + name + "-" + rand.Text()
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.root.Rename(temp, knownDir+"/"+name)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(temp))
	}
	return s.forgetOldest(knownDir, mostKnown)
}

// known reads a file of knownDir. It is nil for a file that others may have written,
// or that is too large.
func (s *state) known(name string) []byte {
	path := knownDir + "/" + name
	info, err := s.root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !Private(info, 0o022) || info.Size() > proofSize+MaxKnown {
		return nil
	}
	f, err := s.root.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, proofSize+MaxKnown))
	if err != nil {
		return nil
	}
	return content
}

// forgetOldest removes the oldest files of a directory if there are more than most.
func (s *state) forgetOldest(dir string, most int) error {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if err != nil || len(entries) <= most {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	for _, info := range files[min(most, len(files)):] {
		if err := s.root.Remove(dir + "/" + info.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
