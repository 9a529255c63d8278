package sandbox

import (
	"fmt"
	"os"
	"slices"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/gitrepo"
)

// NoRepository among the repositories that commands may use says that nothing is granted
// but what is named beside it, and that nobody is asked.
const NoRepository = "none"

// Repository is the git repository of a workspace, as far as commands may use it.
type Repository struct {
	gitrepo.Layout
	allowed bool                        // all that it needs
	ids     map[string]gitrepo.Identity // of the shown directories
}

// FindRepository finds the repository of the workspace that is asked for. A temporary one
// has none before there are commands.
func FindRepository(c Config) Repository {
	if c.Workspace == "" {
		return Repository{}
	}
	home, _ := os.UserHomeDir() // without one, nothing is spared
	l := gitrepo.Find(c.Workspace, home)
	if slices.Contains(c.Repositories, NoRepository) {
		l.Granted = nil
	}
	r := Repository{Layout: l, allowed: l.Allowed(c.Repositories), ids: map[string]gitrepo.Identity{}}
	for _, p := range r.Shown() {
		id, err := gitrepo.Identify(p.Dir)
		if err != nil {
			return Repository{Layout: gitrepo.Layout{Dir: l.Dir, Top: l.Top, Broken: err.Error()}}
		}
		r.ids[p.Dir] = id
	}
	return r
}

// Moved names a shown directory that is not at its path any more; empty for none. Commands
// of another sandbox, whose workspace has the main repository, may put a link to
// anything in its place, and what is shown is found by its path.
func (r Repository) Moved() string {
	for _, p := range r.Shown() {
		if id, err := gitrepo.Identify(p.Dir); err != nil || id != r.ids[p.Dir] {
			return p.Dir
		}
	}
	return ""
}

// Identity is that of a shown directory when the repository was found.
func (r Repository) Identity(dir string) gitrepo.Identity { return r.ids[dir] }

// MovedNote says that a directory is not shown any more, since it is another one.
func MovedNote(dir string) string {
	return fmt.Sprintf("git does not work in the workspace: %q is not the directory any more that it was at the start. Start again if that is right", dir)
}

// Shown are directories outside of the workspace that commands may use, since git needs
// them.
func (r Repository) Shown() []gitrepo.Path {
	if r.allowed {
		return r.Needs
	}
	return r.Granted
}

// Works reports whether git can work, as it can where nothing outside is needed.
func (r Repository) Works() bool {
	return r.Broken == "" && (len(r.Needs) == 0 || r.allowed || len(r.Granted) > 0)
}

// Note says why git does not work, or what it cannot do, and what helps. It is empty if
// there is nothing to say.
func (r Repository) Note() string {
	switch {
	case !r.Works():
		return r.Why()
	case r.allowed, len(r.Needs) == 0:
		return ""
	}
	return fmt.Sprintf("The workspace is a worktree of the git repository in %q. Commands can commit there, but not change its configuration, hooks and packed refs, so that deleting or renaming branches and tags fails, and so does git gc: --repository %s allows that, too", r.Common, escape.Word(r.Common))
}

// Writes are those of the shown directories that commands can write.
func (r Repository) Writes() []string { return r.shown(false) }

// reads are the others.
func (r Repository) reads() []string { return r.shown(true) }

func (r Repository) shown(readOnly bool) (dirs []string) {
	for _, p := range r.Shown() {
		if p.ReadOnly == readOnly {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}

// Elsewhere are the files .git of worktrees of the repository that lie outside of a
// directory. Git takes worktrees for removed whose file it does not see.
func (r Repository) Elsewhere(dir string) []string {
	if r.Common == "" || !r.Works() {
		return nil
	}
	return gitrepo.Elsewhere(r.Common, dir)
}
