// Package stash copies files from one workspace to another. A [Place] is a
// workspace that files come from or go to. A [Store] keeps files in between, as
// archives that are named after their content, so that the same files are
// stored only once. Files are unpacked on this machine only for runtimes that
// can copy in no other way. Package pygent uses it to give files to tasks.
package stash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// ErrClosed is returned by a store after Close.
var ErrClosed = errors.New("the store of files is closed")

// scheme begins the reference of every archive.
const scheme = "sha256:"

// Store keeps sets of files until they are no longer needed. The zero Store is
// empty and ready to use. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	dir    string         // made when it is first used
	refs   map[string]int // by reference: how many calls of Collect still need it
	closed bool
}

// Collect copies files and directories of a place into the store and returns
// their reference. Call Release when they are no longer needed.
func (s *Store) Collect(ctx context.Context, from Place, paths []string) (ref string, err error) {
	dir, err := s.open()
	if err != nil {
		return "", err
	}
	return s.put(dir, func(w io.Writer) error { return pack(ctx, from, paths, w) })
}

// pack writes one archive of several files and directories, each under its own
// path.
func pack(ctx context.Context, from Place, paths []string, w io.Writer) error {
	out, err := tree.NewWriter(w)
	if err != nil {
		return err
	}
	budget := newBudget()
	for _, p := range paths {
		rel, err := from.Rel(ctx, p)
		if err != nil {
			return err
		}
		err = from.Pack(ctx, p, func(r io.Reader) error {
			in, err := tree.NewReader(r, budget)
			if err != nil {
				return err
			}
			return out.Add(rel, in)
		})
		if err != nil {
			return sayRemedy(err)
		}
	}
	return out.Close()
}

// open returns the store's directory.
func (s *Store) open() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", ErrClosed
	}
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := workspace.MakeTemp(false) // if this process dies, it is found and removed
	s.dir = dir
	return dir, err
}

// put stores the archive that fill writes.
func (s *Store) put(dir string, fill func(io.Writer) error) (string, error) {
	f, err := os.CreateTemp(dir, "tar-")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fill(io.MultiWriter(f, sum))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	name := hex.EncodeToString(sum.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	if s.refs == nil {
		s.refs = map[string]int{}
	}
	ref := scheme + name
	s.refs[ref]++
	return ref, nil
}

// Unpack copies the files of a reference to the top of a place. An empty
// reference means no files.
func (s *Store) Unpack(ctx context.Context, to Place, ref string) error {
	if ref == "" {
		return nil
	}
	f, err := os.Open(s.path(ref))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = to.CopyFrom(ctx, f, ".")
	return err
}

// Release says that one call of Collect no longer needs its files.
func (s *Store) Release(ref string) {
	if ref == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs[ref]--; s.refs[ref] <= 0 {
		delete(s.refs, ref)
		_ = os.Remove(filepath.Join(s.dir, strings.TrimPrefix(ref, scheme))) // if this fails, Close removes it
	}
}

func (s *Store) path(ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return filepath.Join(s.dir, filepath.Base(strings.TrimPrefix(ref, scheme)))
}

// Close removes the store with all its files.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.dir == "" {
		return nil
	}
	return workspace.RemoveTemp(s.dir)
}
