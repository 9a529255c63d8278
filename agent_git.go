package pygent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/gitwatch"
)

// gitState is what the files were like by which git runs programs, when the
// agent began or told of them last. The zero value watches nothing.
type gitState struct {
	dirs []string // of this machine, that outlive the runtime and that it can write

	acted atomic.Bool // a tool may have changed something since the last look

	mu      sync.Mutex        // guards what follows
	ready   chan struct{}     // closed when before is there; nil until a run begins
	before  gitwatch.Snapshot // the goroutine of begin has it until then
	toldCut bool              // that the bounds cut a look short
}

const (
	// gitLookTime bounds a look at the repositories.
	gitLookTime = 10 * time.Second
	// shownGitChanges bounds how many changes are named.
	shownGitChanges = 10
)

// keptDirs returns the directories of this machine that commands of a runtime
// can write and that are there after it. Of a runtime that is not of this package
// none are known.
func keptDirs(rt Runtime) []string {
	r, ours := rt.(*workspaceRuntime)
	if !ours {
		return nil
	}
	return r.options.writableDirs(r.UseDocker(), !r.UseDocker())
}

// begin looks at the repositories for the first time, while the model is asked.
func (g *gitState) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ready != nil || len(g.dirs) == 0 {
		return
	}
	ready := make(chan struct{})
	g.ready = ready
	go func() { // waited for by whoever reads before
		defer close(ready)
		g.before = g.look()
	}()
}

// beforeTool waits for the first look: no tool may run before. It returns an
// error when ctx ends meanwhile.
func (g *gitState) beforeTool(ctx context.Context, t Tool) error {
	begun := g.waitReady(ctx)
	if begun && !t.ReadOnly {
		g.acted.Store(true)
	}
	return context.Cause(ctx)
}

// waitReady waits for the first look, which is bounded. It reports false where
// there is none, or ctx ends before.
func (g *gitState) waitReady(ctx context.Context) (begun bool) {
	g.mu.Lock()
	ready := g.ready
	g.mu.Unlock()
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

func (g *gitState) look() gitwatch.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), gitLookTime)
	defer cancel()
	return gitwatch.Take(ctx, g.dirs...)
}

// changes returns what changed since the last time, each change once, and
// whether it has to be said that not everything was looked at.
func (g *gitState) changes() (all []gitwatch.Change, cut bool) {
	if !g.waitReady(context.Background()) {
		return nil, false
	}
	g.acted.Store(false)
	after := g.look()
	g.mu.Lock()
	defer g.mu.Unlock()
	all = g.before.Changes(after)
	g.before = after
	cut = after.Cut && !g.toldCut
	g.toldCut = g.toldCut || cut
	return all, cut
}

// tellGitChanges warns of what was changed that git obeys on this machine.
func (a *Agent) tellGitChanges() {
	changes, cut := a.git.changes()
	if cut {
		a.emit(Event{Type: EventNotice, Text: "the workspace has too many files to look at all of them for changes of git's configuration and hooks"})
	}
	if len(changes) == 0 {
		return
	}
	var names []string
	for _, c := range changes[:min(len(changes), shownGitChanges)] {
		names = append(names, c.String())
	}
	if more := len(changes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	a.emit(Event{Type: EventWarning, Text: "files by which git runs programs on this machine are not what they were: " + strings.Join(names, ", ") +
		". Read them before you use git there, or an editor or prompt that does, and remove what you do not want"})
}

// steersGit reports whether a file of the workspace is one that git obeys on this
// machine. A workspace that goes with its runtime, or is not ours, has none.
func (a *Agent) steersGit(name string) bool {
	r, ours := a.runtime.(*workspaceRuntime)
	switch {
	case !ours || r.options.workspace == "":
		return false
	case r.UseDocker():
		return gitwatch.Steers(name)
	}
	return gitwatch.Leads(r.info.Workspace, name)
}
