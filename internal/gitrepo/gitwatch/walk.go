package gitwatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
)

// Limits of a walk.
const (
	maxEntries = 100_000 // names that are looked at
	maxFiles   = 5_000   // files that are read
	maxRead    = 1 << 20 // bytes of one file
	maxLevels  = 200     // of directories
	maxInDir   = 200     // files of a directory of hooks
)

// walk looks for repositories below a directory, breadth first, so that what
// the limits leave out is deep in the tree.
type walk struct {
	ctx     context.Context
	root    *os.Root
	files   map[string]string
	hooked  map[string]bool // directories of hooks that have been looked at
	queue   []string
	last    []string // directories to look at when the queue is empty
	found   []string // the repositories
	entries int
	cut     bool
}

func newWalk(ctx context.Context, dir string) (*walk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("look for repositories: %w", err)
	}
	return &walk{ctx: ctx, root: root, files: map[string]string{}, hooked: map[string]bool{}, queue: []string{"."}}, nil
}

// run looks at everything that the limits allow.
func (w *walk) run() {
	defer w.root.Close()
	for len(w.queue)+len(w.last) > 0 {
		if w.full() {
			return
		}
		if len(w.queue) == 0 {
			w.queue, w.last = w.last, nil
		}
		dir := w.queue[0]
		w.queue = w.queue[1:]
		w.directory(dir)
	}
}

// full reports whether a limit has been reached.
func (w *walk) full() bool {
	if w.entries >= maxEntries || len(w.files) >= maxFiles || w.ctx.Err() != nil {
		w.cut = true
		return true
	}
	return false
}

// directory looks at one directory and queues its subdirectories.
func (w *walk) directory(dir string) {
	entries := w.list(dir, maxEntries-w.entries)
	w.entries += len(entries) + 1
	repository := isRepository(dir, entries)
	if repository {
		w.repository(dir)
	}
	for _, e := range entries {
		switch {
		case !e.dir:
			if isGit(e.name) { // a file with the path of the repository's directory, or a link to that
				w.note(path.Join(dir, e.name))
			}
		case repository && unwatched[strings.ToLower(e.name)]:
		case strings.Count(dir, "/") >= maxLevels-1:
			w.cut = true
		case late[e.name]:
			w.last = append(w.last, path.Join(dir, e.name))
		default:
			w.queue = append(w.queue, path.Join(dir, e.name))
		}
	}
}

// repository records the files of a repository that make git run programs.
func (w *walk) repository(dir string) {
	w.found = append(w.found, dir)
	w.hooks(path.Join(dir, "hooks"))
	w.note(path.Join(dir, "info", "attributes"))
	w.note(path.Join(dir, "commondir"))
	for _, name := range []string{"config", "config.worktree"} {
		data, state := w.read(path.Join(dir, name))
		if state == "" {
			continue
		}
		steering, pointers := readConfig(data)
		w.files[path.Join(dir, name)] = fingerprint(state, steering)
		for _, pointer := range pointers {
			w.pointer(dir, pointer)
		}
	}
}

// pointer records the file or directory that a configuration names. A relative
// name is resolved both from the repository's own directory and from its
// parent.
func (w *walk) pointer(dir, name string) {
	for _, base := range []string{dir, path.Dir(dir)} {
		at := path.Join(base, name)
		w.note(at)
		w.hooks(at)
		if path.Base(at) == "_" { // the layout of husky: its hooks run the programs in the parent directory
			w.hooks(path.Dir(at))
		}
	}
}

// hooks records the files in a directory of hooks, except git's own samples.
func (w *walk) hooks(dir string) {
	if w.hooked[dir] || w.full() {
		return
	}
	w.hooked[dir] = true
	if target, err := w.root.Readlink(dir); err == nil {
		w.files[dir] = "link to " + target
	}
	for _, e := range w.list(dir, maxInDir) {
		if !e.dir && !strings.HasSuffix(e.name, ".sample") {
			w.note(path.Join(dir, e.name))
		}
	}
}

// note records the state of a file, if it exists. Many configurations may name
// the same large file, which is then read only once.
func (w *walk) note(name string) {
	if _, known := w.files[name]; known || w.full() {
		return
	}
	if data, state := w.read(name); state != "" {
		w.files[name] = fingerprint(state, data)
	}
}

// read returns the content of a file, and a description of its other
// properties. It returns nothing for something that is neither a file nor a
// link.
func (w *walk) read(name string) (data []byte, state string) {
	if target, err := w.root.Readlink(name); err == nil {
		state = "link to " + target + " "
	}
	f, err := w.open(name)
	if err != nil {
		return nil, state
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, state
	}
	data, err = io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return nil, state + err.Error()
	}
	state += fmt.Sprintf("%v %t", info.Mode()&0o111 != 0, info.Size() > maxRead)
	if info.Size() > maxRead {
		state += fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	return data, state
}

// entry is a name in a directory.
type entry struct {
	name string
	dir  bool // it is a directory, and not a link to one
}

// list returns at most n entries of a directory, or none if it is no directory.
func (w *walk) list(dir string, n int) []entry {
	f, err := w.open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := readEntries(f, n+1) // the entries that were read before an error are used
	if len(entries) > n {
		w.cut = true
		entries = entries[:n]
	}
	return entries
}

// listEntries is readEntries where only package os reads directories.
func listEntries(dir *os.File, n int) ([]entry, error) {
	found, err := dir.ReadDir(n)
	entries := make([]entry, len(found))
	for i, e := range found {
		entries[i] = entry{e.Name(), e.IsDir()}
	}
	return entries, err
}

// open opens a file below the root. It does not block on a named pipe.
func (w *walk) open(name string) (*os.File, error) {
	return w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// fingerprint returns a text that differs for different states of a file.
func fingerprint(state string, data []byte) string {
	return fmt.Sprintf("%s %x", state, sha256.Sum256(data))
}
