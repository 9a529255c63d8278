package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/x/pygent/internal/gitrepo"
	"github.com/x/pygent/internal/gitrepo/gitwatch"
)

// git is what a sandbox does so that git works for its commands, and removes nothing
// that they do not see.
type git struct {
	trust  string                         // the directories in which git trusts repositories
	keeper func() *gitrepo.WorktreeKeeper // waits until the repositories are found
	events *Events
	head   func() string // of the repository, if git works
	cut    *sync.Once    // tells that not everything is kept
}

// findTime is how long the search for the repositories of a workspace may take.
const findTime = 10 * time.Second

// openGit begins to look for the repositories of a workspace. A temporary one has no
// worktrees elsewhere.
func (r *Sandbox) openGit(p Parts, c Config) git {
	g := git{trust: p.GitTrust, events: c.Events, cut: new(sync.Once), head: func() string { return "" }}
	if p.Git.Works() {
		g.head = p.Git.Head
	}
	if r.dir.Temporary {
		g.keeper = func() *gitrepo.WorktreeKeeper { return new(gitrepo.WorktreeKeeper) }
		return g
	}
	dir, outside := r.Dir(), p.Git.Shown()
	g.keeper = sync.OnceValue(func() *gitrepo.WorktreeKeeper {
		ctx, cancel := context.WithTimeout(r.life, findTime)
		defer cancel()
		found := gitwatch.Repositories(ctx, dir)
		if len(outside) > 0 {
			found = append(found, p.Git.Common)
		}
		return gitrepo.KeepWorktrees(dir, found...)
	})
	go g.keeper() // close waits for it
	return g
}

// GitHead is the HEAD of the repository that the workspace belongs to, wherever that is. It
// is empty if git does not work.
func (r *Sandbox) GitHead() string { return r.git.head() }

// take copies what commands could remove of the worktrees that they do not see.
func (g git) take() {
	if g.keeper().Take() {
		g.cut.Do(func() {
			g.events.Send(Event{Kind: Limited, Text: "git's records of linked worktrees are too large or too many to be kept: \"git worktree prune\" in a command removes what is staged there"})
		})
	}
}

// putBack writes again what commands have removed of these, and says so.
func (g git) putBack() (note string) {
	trees, err := g.keeper().PutBack()
	switch {
	case err != nil:
		g.events.Send(Event{Kind: Limited, Text: err.Error()})
	case len(trees) > 0:
		note = fmt.Sprintf("git was told to forget worktrees that are on the user's machine, outside of the workspace: what it knows of them was put back (%q)", trees)
	}
	return note
}

// withGit adds what git has to know: that it may work in a workspace of somebody else,
// that worktrees are not gone which commands do not see, and how repositories named as
// for ssh are reached.
func (r *Sandbox) withGit(env []string) []string {
	settings := [][2]string{{"safe.directory", r.git.trust}, {"gc.worktreePruneExpire", "never"}}
	return withGitConfig(env, append(settings, r.network.gitRewrites()...)...)
}
