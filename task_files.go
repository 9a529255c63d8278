package pygent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// Bounds of the files that go into a task, or out of it, at once.
const (
	maxTaskFiles   = 1 << 30 // bytes of data, without holes
	maxTaskEntries = 100_000 // files, directories and links
)

// taskFiles keeps the files that tasks begin with, each set once, in an archive
// that is named by its content. Nothing of it is unpacked on this machine. It is
// safe for concurrent use.
type taskFiles struct {
	mu     sync.Mutex
	dir    string         // made at the first use
	refs   map[string]int // how many tasks have yet to unpack an archive
	closed bool
}

// collect copies files of a runtime into the store and returns their
// reference; no files have an empty one. Release it when it is not needed.
func (s *taskFiles) collect(ctx context.Context, rt Runtime, paths []string) (ref string, err error) {
	if len(paths) == 0 {
		return "", nil
	}
	if rt == nil {
		return "", errors.New("files need a parent runtime to copy them from")
	}
	dir, err := s.open()
	if err != nil {
		return "", err
	}
	return s.put(dir, func(w io.Writer) error { return packFiles(ctx, rt, paths, w) })
}

// packFiles writes the archive of several files and directories of a runtime,
// each under its path.
func packFiles(ctx context.Context, rt Runtime, paths []string, w io.Writer) error {
	out, err := tree.NewWriter(w)
	if err != nil {
		return err
	}
	budget := filesBudget()
	for _, p := range paths {
		rel, err := relativeTo(ctx, rt, p)
		if err != nil {
			return err
		}
		err = packTree(ctx, rt, p, func(r io.Reader) error {
			in, err := tree.NewReader(r, budget)
			if err != nil {
				return err
			}
			return out.Add(rel, in)
		})
		if err != nil {
			return tooLargeForTask(err)
		}
	}
	return out.Close()
}

// filesBudget bounds what one delegation or collection copies.
func filesBudget() *tree.Budget {
	return tree.NewBudget(tree.Limits{Bytes: maxTaskFiles, Entries: maxTaskEntries})
}

// tooLargeForTask adds what can be done about files that are too large.
func tooLargeForTask(err error) error {
	if errors.Is(err, ErrCopyTooLarge) {
		return fmt.Errorf("%w; name only the files that are needed, or pack them smaller", err)
	}
	return err
}

// open returns the store's directory.
func (s *taskFiles) open() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", ErrTaskManagerClosed
	}
	if s.dir != "" {
		return s.dir, nil
	}
	dir, err := workspace.MakeTemp(false) // found and removed when this process dies
	s.dir = dir
	return dir, err
}

// put keeps the archive that fill writes.
func (s *taskFiles) put(dir string, fill func(io.Writer) error) (string, error) {
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
	ref := "sha256:" + name
	s.refs[ref]++
	return ref, nil
}

// unpackInto copies the files of a reference into a runtime.
func (s *taskFiles) unpackInto(ctx context.Context, rt Runtime, ref string) (err error) {
	if ref == "" {
		return nil
	}
	f, err := os.Open(s.path(ref))
	if err != nil {
		return err
	}
	defer f.Close()
	return unpackTree(ctx, rt, f, ".")
}

// release says that one task needs the reference no longer.
func (s *taskFiles) release(ref string) {
	if ref == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs[ref]--; s.refs[ref] <= 0 {
		delete(s.refs, ref)
		_ = os.Remove(filepath.Join(s.dir, strings.TrimPrefix(ref, "sha256:"))) // close removes it at the latest
	}
}

func (s *taskFiles) path(ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return filepath.Join(s.dir, filepath.Base(strings.TrimPrefix(ref, "sha256:")))
}

// close removes the store.
func (s *taskFiles) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.dir == "" {
		return nil
	}
	return workspace.RemoveTemp(s.dir)
}

// samePath returns where a file of a task's workspace goes in rt when nothing is
// said: to the same path. Where rt has no such place, since the workspace of a
// task on this machine has another name, that is the path's base.
func samePath(ctx context.Context, rt Runtime, p string) (string, error) {
	rel, err := relativeTo(ctx, rt, p)
	if clean := path.Clean(filepath.ToSlash(p)); err != nil && path.IsAbs(clean) && clean != "/" {
		return path.Base(clean), nil
	}
	return rel, err
}

// relativeTo returns a path of a runtime relative to its workspace.
func relativeTo(ctx context.Context, rt Runtime, p string) (string, error) {
	if p == "" {
		return "", errors.New("the path is empty")
	}
	clean := path.Clean(filepath.ToSlash(p))
	if path.IsAbs(clean) {
		d, ok := rt.(Describer)
		if !ok {
			return "", fmt.Errorf("%s: %w", p, ErrOutsideWorkspace)
		}
		root := path.Clean(filepath.ToSlash(d.Describe(ctx).Workspace))
		if clean == root {
			return ".", nil
		}
		rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(root, "/")+"/")
		if !ok {
			return "", fmt.Errorf("%s: %w", p, ErrOutsideWorkspace)
		}
		clean = rest
	}
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", fmt.Errorf("%q: %w", p, ErrOutsideWorkspace)
	}
	return clean, nil
}
