package sandbox

import (
	"fmt"
	"os"
	"slices"

	"github.com/x/pygent/internal/gitlayout"
)

// NoRepository among the repositories that commands may use says that nothing is granted
// without a question.
const NoRepository = "none"

// Repository is the git repository of a workspace, as far as commands may use it.
type Repository struct {
	gitlayout.Layout
	allowed bool // all that it needs
}

// FindRepository finds the repository of the workspace that is asked for. A temporary one
// has none before there are commands.
func FindRepository(c Config) Repository {
	if c.Workspace == "" {
		return Repository{}
	}
	home, _ := os.UserHomeDir() // without one, nothing is spared
	l := gitlayout.Find(c.Workspace, home)
	if slices.Contains(c.Repositories, NoRepository) {
		l.Granted = nil
	}
	return Repository{l, l.Allowed(c.Repositories)}
}

// Shown are directories outside of the workspace that commands may use, since git needs
// them.
func (r Repository) Shown() []gitlayout.Path {
	if r.allowed {
		return r.Needs
	}
	return r.Granted
}

// Works reports whether git can work.
func (r Repository) Works() bool { return r.Broken == "" && (r.allowed || len(r.Granted) > 0) }

// Note says why git does not work, or what it cannot do, and what helps. It is empty if
// there is nothing to say.
func (r Repository) Note() string {
	switch {
	case !r.Works():
		return r.Why()
	case r.allowed:
		return ""
	}
	return fmt.Sprintf("The workspace is a worktree of the git repository in %q. Commands can commit there, but not change its configuration, hooks and packed refs, so that git gc fails: --repository %s allows that, too", r.Common, r.Common)
}

// Writes are those of the shown directories that commands can write.
func (r Repository) Writes() (dirs []string) {
	for _, p := range r.Shown() {
		if !p.ReadOnly {
			dirs = append(dirs, p.Dir)
		}
	}
	return dirs
}
