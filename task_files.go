package pygent

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/workspace"
)

// maxTaskFiles bounds the files that go into a task, or out of it, in bytes.
const maxTaskFiles = 1 << 30

// taskFiles keeps the files that tasks begin with, each set once, in a tar
// that is named by its content. It is safe for concurrent use.
type taskFiles struct {
	mu     sync.Mutex
	dir    string         // made at the first use
	refs   map[string]int // how many tasks have yet to unpack a tar
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
	tree, err := workspace.MakeTemp(false)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(tree)) }()
	for _, p := range paths {
		rel, err := relativeTo(ctx, rt, p)
		if err != nil {
			return "", err
		}
		if err := rt.ExportFile(ctx, p, filepath.Join(tree, filepath.FromSlash(rel))); err != nil {
			return "", err
		}
	}
	return s.put(ctx, dir, tree)
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

// put packs a directory into the store's.
func (s *taskFiles) put(ctx context.Context, dir, tree string) (string, error) {
	f, err := os.CreateTemp(dir, "tar-")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = writeTar(ctx, io.MultiWriter(f, sum), tree)
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
	return uploadTar(ctx, rt, f, "")
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

// exportTar writes a file or directory of a runtime to w: a tar with one entry
// at its top, named like the path's base.
func exportTar(ctx context.Context, rt Runtime, p string, w io.Writer) (err error) {
	base := path.Base(path.Clean(filepath.ToSlash(p)))
	if base == "." || base == "/" || base == ".." {
		base = "workspace"
	}
	tree, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(tree)) }()
	if err := rt.ExportFile(ctx, p, filepath.Join(tree, base)); err != nil {
		return err
	}
	return writeTar(ctx, w, tree)
}

// uploadTar copies what a tar holds into a runtime: each entry at its top to
// dest, or to its own name when dest is empty.
func uploadTar(ctx context.Context, rt Runtime, r io.Reader, dest string) (err error) {
	tree, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(tree)) }()
	if err := readTar(ctx, r, tree); err != nil {
		return err
	}
	entries, err := os.ReadDir(tree)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		to := dest
		if to == "" {
			to = entry.Name()
		}
		if err := rt.UploadFile(ctx, filepath.Join(tree, entry.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

// writeTar packs what is below dir. Equal trees give equal bytes: entries are
// sorted, and times and owners left out.
func writeTar(ctx context.Context, w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	out := tar.NewWriter(w)
	var total int64
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); info.Mode().IsRegular() && total > maxTaskFiles {
			return fmt.Errorf("the files of a task exceed %d MiB", maxTaskFiles>>20)
		}
		return tarEntry(out, root, name, info)
	})
	if err != nil {
		return fmt.Errorf("pack files: %w", err)
	}
	return out.Close()
}

func tarEntry(out *tar.Writer, root *os.Root, name string, info fs.FileInfo) error {
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag = tar.TypeDir
		h.Name += "/"
		return out.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		return out.WriteHeader(h)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: neither a file, a directory nor a link", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// readTar unpacks files, directories and links below dir, and nothing outside
// it, whatever the tar says.
func readTar(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(r)
	for left := int64(maxTaskFiles); ; {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			if left -= max(h.Size, 0); left < 0 {
				err = fmt.Errorf("more than %d MiB", maxTaskFiles>>20)
			} else {
				err = untarEntry(root, h, in)
			}
		}
		if err != nil {
			return fmt.Errorf("unpack files: %w", err)
		}
	}
}

func untarEntry(root *os.Root, h *tar.Header, in io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%q: %w", h.Name, ErrOutsideWorkspace)
	}
	mode := fs.FileMode(h.Mode).Perm()
	if parent := path.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		if sparse(h) {
			return fmt.Errorf("%q: a sparse file, whose size the tar's own says nothing of", h.Name)
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in)
		return errors.Join(err, f.Close())
	}
	return fmt.Errorf("%q: neither a file, a directory nor a link", h.Name)
}

func sparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}
