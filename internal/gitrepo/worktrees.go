package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxRecords = 200       // worktrees of all repositories
	maxFiles   = 300       // of one record
	maxBytes   = 256 << 20 // of all copies
	maxLevels  = 8         // of directories in a record
)

// WorktreeKeeper keeps the records of some repositories. It is safe for concurrent use. The zero
// WorktreeKeeper keeps nothing.
type WorktreeKeeper struct {
	mu      sync.Mutex // guards what follows
	repos   []store
	records map[string]*record
	bytes   int64 // of all copies
	cut     bool  // the limits left something out
}

// store is a git directory, and the directory from which it is reached.
type store struct {
	git, from string
	was       fs.FileInfo // from, when the Keeper was made
}

// open opens the git directory. A command may have put a link into its path.
func (r store) open() (*os.Root, error) {
	root, err := os.OpenRoot(r.from)
	if err != nil {
		return nil, err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(now, r.was) {
		return nil, errors.Join(fmt.Errorf("%s is another directory now", r.from), err, root.Close())
	}
	if r.git == r.from {
		return root, nil
	}
	defer root.Close()
	name, err := filepath.Rel(r.from, r.git)
	if err != nil {
		return nil, err
	}
	return root.OpenRoot(name)
}

// record is the copy of the directory of one worktree.
type record struct {
	store
	name  string
	tree  string // the file .git of the worktree, which lies elsewhere
	dirs  []string
	files map[string]file
}

// file is a copied file.
type file struct {
	info fs.FileInfo
	data []byte
}

// KeepWorktrees returns a Keeper for repositories, named by their git directories. Those in dir, which
// commands can write, are reached from there and nowhere else.
func KeepWorktrees(dir string, repos ...string) *WorktreeKeeper {
	k := &WorktreeKeeper{records: map[string]*record{}}
	for _, git := range repos {
		r := store{git: git, from: git}
		if rel, err := filepath.Rel(dir, git); err == nil && filepath.IsLocal(rel) {
			r.from = dir
		}
		var err error
		if r.was, err = os.Lstat(r.from); err == nil && r.was.IsDir() {
			k.repos = append(k.repos, r)
		}
	}
	return k
}

// Take copies what has changed of the records since the last call. cut says that the
// limits leave something out.
func (k *WorktreeKeeper) Take() (cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes = 0
	for _, repo := range k.repos {
		k.takeAll(repo)
	}
	return k.cut
}

func (k *WorktreeKeeper) takeAll(repo store) {
	root, err := repo.open()
	if err != nil {
		return
	}
	defer root.Close()
	for _, e := range list(root, "worktrees", maxRecords) {
		if !e.IsDir() {
			continue
		}
		name := path.Join("worktrees", e.Name())
		at := filepath.Join(repo.git, filepath.FromSlash(name))
		old := k.records[at]
		if old == nil && len(k.records) >= maxRecords {
			k.cut = true
			return
		}
		r := &record{store: repo, name: name, files: map[string]file{}}
		if k.take(root, r, old) && r.names(root) {
			k.records[at] = r
		} // else it is incomplete, and an earlier copy is the better one
	}
}

// Elsewhere returns the files .git of a repository's worktrees that are there, and lie
// outside of a directory.
func Elsewhere(git, dir string) (files []string) {
	k := KeepWorktrees(dir, git)
	for _, repo := range k.repos {
		root, err := repo.open()
		if err != nil {
			continue
		}
		defer root.Close()
		for _, e := range list(root, "worktrees", maxRecords) {
			r := &record{store: repo, name: path.Join("worktrees", e.Name()), files: map[string]file{}}
			for _, name := range []string{"gitdir", "HEAD"} {
				k.copy(root, r, nil, path.Join(r.name, name)) // without them it names nothing
			}
			if !r.names(root) || !r.isAlive() {
				continue
			}
			if rel, err := filepath.Rel(dir, r.tree); err != nil || !filepath.IsLocal(rel) {
				files = append(files, r.tree)
			}
		}
	}
	return files
}

// take copies a record, of which there may be an earlier copy. It reports false if the
// record cannot be read.
func (k *WorktreeKeeper) take(root *os.Root, r, old *record) bool {
	var walk func(dir string, level int) bool
	walk = func(dir string, level int) bool {
		r.dirs = append(r.dirs, dir)
		for _, e := range list(root, dir, maxFiles) {
			name := path.Join(dir, e.Name())
			if len(r.files)+len(r.dirs) >= maxFiles || level >= maxLevels {
				k.cut = true
				return false
			}
			switch {
			case e.IsDir() && !walk(name, level+1):
				return false
			case e.Type().IsRegular() && !k.copy(root, r, old, name):
				return false
			}
		}
		return true
	}
	return walk(r.name, 0) && len(r.files) > 0
}

// copy copies a file, unless that of the earlier copy is the same.
func (k *WorktreeKeeper) copy(root *os.Root, r, old *record, name string) bool {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return errors.Is(err, fs.ErrNotExist) // git has just replaced it, or removed a lock
	}
	if k.bytes += info.Size(); k.bytes > maxBytes {
		k.cut = true
		return false
	}
	if old != nil {
		was, known := old.files[name]
		if known && os.SameFile(was.info, info) && was.info.Size() == info.Size() && was.info.ModTime().Equal(info.ModTime()) && settled(info) {
			r.files[name] = was
			return true
		}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil {
		return false
	}
	r.files[name] = file{info, data}
	return true
}

// settled reports whether a file that is changed from now on gets another time.
func settled(info fs.FileInfo) bool { return time.Since(info.ModTime()) > 2*time.Second }

// names finds out which worktree a record is about.
func (r *record) names(root *os.Root) bool {
	to := strings.TrimRight(string(r.files[path.Join(r.name, "gitdir")].data), "\r\n")
	if to == "" || strings.ContainsRune(to, 0) || len(r.files[path.Join(r.name, "HEAD")].data) == 0 {
		return false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(r.git, filepath.FromSlash(r.name), to)
	}
	r.tree = filepath.Clean(to)
	return true
}

// isAlive reports whether the worktree of a record is still there, and says that it is
// this record's.
func (r *record) isAlive() bool {
	const most = 8 << 10
	info, err := os.Lstat(r.tree)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return false
	}
	f, err := os.OpenFile(r.tree, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	to, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if err != nil || !ok {
		return false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(r.tree), to)
	}
	want := filepath.Join(r.git, filepath.FromSlash(r.name))
	if filepath.Clean(to) == want {
		return true
	}
	a, errA := os.Stat(filepath.Dir(filepath.Dir(to)))
	b, errB := os.Stat(r.git) // one may be named by a path with links
	return errA == nil && errB == nil && os.SameFile(a, b) && filepath.Base(to) == filepath.Base(want)
}

// PutBack writes the records again that are gone while their worktrees are not, and
// returns the directories of these worktrees.
func (k *WorktreeKeeper) PutBack() (trees []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at, r := range k.records {
		gone, failed := r.isGone()
		switch {
		case failed != nil || !gone:
			continue // of a repository that is itself gone, nothing is put back
		case !r.isAlive():
			delete(k.records, at)
			continue
		}
		if failed := r.write(); failed != nil {
			err = errors.Join(err, fmt.Errorf("put back what git knows of the worktree %s: %w", filepath.Dir(r.tree), failed))
			continue
		}
		trees = append(trees, filepath.Dir(r.tree))
	}
	slices.Sort(trees)
	return trees, err
}

// isGone reports whether a record is not there any more, or has lost its HEAD.
func (r *record) isGone() (bool, error) {
	root, err := r.open()
	if err != nil {
		return false, err
	}
	defer root.Close()
	if _, err := root.Lstat("HEAD"); err != nil {
		return false, err
	}
	for _, name := range []string{"HEAD", "gitdir"} {
		if _, err := root.Lstat(path.Join(r.name, name)); err != nil {
			return true, nil
		}
	}
	return false, nil
}

// write makes the files of a record that are missing.
func (r *record) write() error {
	root, err := r.open()
	if err != nil {
		return err
	}
	defer root.Close()
	like, err := root.Lstat("HEAD")
	if err != nil {
		return err
	}
	if err := root.MkdirAll(r.name, 0o755); err != nil {
		return err
	}
	own(root, "worktrees", like)
	for _, dir := range r.dirs {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		own(root, dir, like)
	}
	for name, f := range r.files {
		switch out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.info.Mode().Perm()); {
		case errors.Is(err, fs.ErrExist): // a prune that was interrupted has left it
		case err != nil:
			return err
		default:
			_, err := io.Copy(out, bytes.NewReader(f.data))
			if err := errors.Join(err, out.Close()); err != nil {
				return err
			}
			_ = root.Chtimes(name, time.Time{}, f.info.ModTime())
			own(root, name, like)
		}
	}
	return nil
}

// list returns what is in a directory, or nothing if it is none.
func list(root *os.Root, dir string, most int) []fs.DirEntry {
	info, err := root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	f, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(most)
	return entries
}
