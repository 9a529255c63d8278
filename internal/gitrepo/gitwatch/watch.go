package gitwatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookTime is how long one look at the repositories may take.
	lookTime = 10 * time.Second
	// shown is how many changes are reported by name.
	shown = 10
)

// Watch reports what has changed since it began, each change once. It is safe
// for concurrent use. An agent has a Watch for those directories of the user's
// machine that its tools can write.
type Watch struct {
	dirs  []string
	acted atomic.Bool // something may have changed since the last look

	mu      sync.Mutex    // guards the fields below
	ready   chan struct{} // closed once before is set; nil until Begin
	before  Snapshot      // written by the goroutine of Begin before ready is closed
	toldCut bool          // it was already reported that a look was incomplete
}

// NewWatch returns a watch over directories. With none, it does nothing.
func NewWatch(dirs ...string) *Watch {
	return &Watch{dirs: slices.DeleteFunc(slices.Clone(dirs), isData)}
}

// isData reports whether a directory is one of a repository that holds only data.
func isData(dir string) bool {
	if name := filepath.Base(dir); name == "hooks" || !unwatched[name] {
		return false
	}
	info, err := os.Lstat(filepath.Join(filepath.Dir(dir), "HEAD"))
	return err == nil && info.Mode().IsRegular()
}

// Begin takes the first look at the repositories, in a goroutine. Nothing that
// can change them may run before [Watch.Before] has returned. Further calls of
// Begin do nothing.
func (w *Watch) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready != nil || len(w.dirs) == 0 {
		return
	}
	ready := make(chan struct{})
	w.ready = ready
	go func() { // waitReady waits for it
		defer close(ready)
		w.before = w.look()
	}()
}

// Before waits for the first look. It returns an error if ctx ends before that.
// writes means that what runs next may change something.
func (w *Watch) Before(ctx context.Context, writes bool) error {
	if w.waitReady(ctx) && writes {
		w.acted.Store(true)
	}
	return context.Cause(ctx)
}

// Acted reports whether something may have changed since the last look.
func (w *Watch) Acted() bool { return w.acted.Load() }

// waitReady waits for the first look, which has a time limit. It reports false
// if Begin was not called or ctx ends first.
func (w *Watch) waitReady(ctx context.Context) (begun bool) {
	w.mu.Lock()
	ready := w.ready
	w.mu.Unlock()
	if ready == nil {
		return false
	}
	select {
	case <-ready:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *Watch) look() Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	return Take(ctx, w.dirs...)
}

// News describes what has changed since the last call. warning is about the
// changes. notice is given once, if not everything could be looked at. Each is
// empty if there is nothing to say.
func (w *Watch) News() (notice, warning string) {
	if !w.waitReady(context.Background()) {
		return "", ""
	}
	w.acted.Store(false)
	after := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.before.Changes(after)
	w.before = after
	if after.Cut && !w.toldCut {
		w.toldCut = true
		notice = "the workspace has too many files to look at all of them for changes of git's configuration and hooks"
	}
	if len(changes) > 0 {
		warning = describe(changes)
	}
	return notice, warning
}

func describe(changes []Change) string {
	var names []string
	for _, c := range changes[:min(len(changes), shown)] {
		names = append(names, c.String())
	}
	if more := len(changes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "files that can make git run programs on this machine have changed: " + strings.Join(names, ", ") +
		". Check them before you use git there, or an editor or prompt that uses git, and remove what you do not want"
}
