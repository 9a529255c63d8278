package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Limits of the space for long outputs.
const (
	maxSpill      = 16 << 20  // bytes of one output
	maxSpills     = 128 << 20 // bytes of all outputs
	maxShmSpills  = 32 << 20  // bytes of all outputs if the directory is in memory
	maxSpillFiles = 256
)

// spills is the directory with the files of long outputs. It is private to the
// guest's user and lies outside of the workspace.
type spills struct {
	dir   string
	limit int64

	mu    sync.Mutex // guards the fields below
	count int
	files []string // the oldest first
}

// newSpills makes a directory in the first of the candidates where that is
// possible.
func newSpills(candidates []string, workspace string) (*spills, error) {
	if len(candidates) == 0 {
		candidates = []string{os.TempDir(), "/var/tmp", "/dev/shm"}
	}
	var tried error
	for _, parent := range candidates {
		if within(parent, workspace) {
			continue
		}
		dir, err := os.MkdirTemp(parent, ".pygent-")
		if err == nil {
			err = probe(dir)
		}
		if err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		s := &spills{dir: dir, limit: maxSpills}
		if strings.HasPrefix(dir, "/dev/shm/") {
			s.limit = maxShmSpills
		}
		return s, nil
	}
	return nil, fmt.Errorf("no directory takes long outputs: %w", errors.Join(tried, os.ErrPermission))
}

// probe checks that files can be written in the directory.
func probe(dir string) error {
	name := filepath.Join(dir, "probe")
	err := os.WriteFile(name, []byte("x"), 0o600)
	_ = os.Remove(name)
	if err != nil {
		_ = os.Remove(dir)
	}
	return err
}

// within reports whether path is dir or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// create makes a file for one output. It removes the oldest files if all
// together could become too large.
func (s *spills) create() (*spillFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := min(s.limit/2, maxSpill)
	keep := min(int(s.limit/limit), maxSpillFiles)
	for len(s.files) >= keep {
		_ = os.Remove(s.files[0])
		s.files = s.files[1:]
	}
	s.count++
	name := filepath.Join(s.dir, fmt.Sprintf("output-%d", s.count))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, name)
	return &spillFile{name: name, file: file, limit: limit}, nil
}

// open opens a file of the directory for reading. It returns nil for any other
// path. A link that a command may have put there leads nowhere else.
func (s *spills) open(name string) (*os.File, error) {
	if s == nil || filepath.Dir(name) != s.dir {
		return nil, nil
	}
	s.mu.Lock()
	known := slices.Contains(s.files, filepath.Clean(name))
	s.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openRegular(root, filepath.Base(name))
}

// remove removes the directory and what is in it.
func (s *spills) remove() error { return os.RemoveAll(s.dir) }
