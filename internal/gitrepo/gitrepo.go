// Package gitrepo finds the git repository that a directory belongs to, in each of
// the layouts that git has, and says which files outside of that directory git needs.
// A sandbox shows its commands the workspace alone, so git works there only if nothing
// is missing or if what is missing is shown as well:
//
//   - a linked worktree needs the git directory of its main repository, to write: refs
//     and objects are there, and its own HEAD and index below worktrees;
//   - a submodule needs its git directory below .git/modules of the superproject, to
//     write, and nothing else of that;
//   - a package of a monorepo needs the root of the repository to read, and the git
//     directory to write. With the git directory alone, git would take all other files
//     for deleted, and "commit -a" would delete them;
//   - a repository with alternates needs their object directories, to read;
//   - a git directory that was made elsewhere (--separate-git-dir) is needed, to write.
//
// All of that is shown at its own path, and commands begin at the path that the
// workspace has on the user's machine: git stores absolute paths in some of these
// layouts and relative ones in others, and both are right only there.
//
// What says where a repository is are files of the workspace, and these may be
// hostile: a cloned project must not choose which directory of the user's machine a
// command can write. So nothing found here is shown before a person or a setting of
// the user's has allowed its path, and only what is a git directory by its content is
// found at all. A git directory must also name the workspace as its working tree,
// as worktrees and submodules do, before anybody is asked about it: "another
// project's .git" does not. One that names no working tree can only be allowed by a
// setting that names it. Paths that lead through symbolic links or hold control
// characters are refused, since what a person has read would not be what is shown.
//
// One thing is granted without a question: a linked worktree whose repository names it,
// and belongs to the same user, may use that repository for commits. No file of the
// workspace can bring that about, since the record is in the repository. Commands then
// read the git directory, and write its objects, refs and logs and the worktree's own
// record. Its configuration and hooks, by which git runs programs on the user's machine,
// stay out of reach, and so do packed refs: "git gc" needs the user's yes.
//
// The package reads files only, each up to a limit, never waits for a named pipe, and
// never runs git.
//
// Beside that, a [WorktreeKeeper] keeps what repositories record of their linked worktrees.
//
// A repository has a directory below .git/worktrees for each of its linked worktrees:
// with its HEAD, and its index, in which everything is that is staged there. Commands
// in a sandbox do not see those worktrees, since they lie outside of the workspace, so
// git takes them for removed: "git worktree prune" and "git gc" then delete the
// records, and with them what the user has staged. A sandbox tells git never to do so by
// itself (gc.worktreePruneExpire). A WorktreeKeeper is for what is left, a prune that
// somebody asks for: it copies the records before each command, and puts back afterwards
// those that are gone although their worktrees are still there, as this machine sees it.
//
// A copy comes too late for one thing: "git gc --prune=now" after a prune in the same
// command deletes what only the index or the HEAD of such a worktree holds. So there is
// a file where git looks for each of those worktrees ([Elsewhere]), and git forgets none.
//
// Copies are in memory, up to a limit. Everything is read and written below the git
// directory, whatever symbolic links a command has left there.
package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/escape"
)

// Path is a directory outside of the workspace that git needs.
type Path struct {
	Dir      string // absolute, without symbolic links
	ReadOnly bool
}

// Layout says where the repository of a workspace is. The zero Layout is none.
type Layout struct {
	Dir    string // the git directory of the working tree; empty for no repository
	Common string // the git directory that it shares with other working trees; often Dir
	Top    string // the root of the working tree
	Needs  []Path // outside of the workspace
	// Granted is what may be shown of Needs before anybody has allowed it; mostly nothing.
	Granted []Path
	// Broken says, as the end of a sentence, why git cannot work although there is a
	// repository. Needs is then empty.
	Broken string
	// Unproved says that nothing in the needed git directory names the workspace.
	Unproved bool
	// OwnPath says that git finds its way only if commands begin at the path that the
	// workspace has on the user's machine.
	OwnPath bool
}

// Find returns the layout of a workspace. It looks for a repository in the directories
// above, as git does, but not in the home directory and those that hold it: what would
// be shown of them is everything that a user has.
func Find(workspace, home string) Layout {
	ws, err := filepath.EvalSymlinks(workspace)
	if err == nil {
		ws, err = filepath.Abs(ws)
	}
	if err != nil {
		return Layout{}
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	f := finder{workspace: ws, home: home}
	top := f.top()
	if top == "" || f.layout.Broken != "" {
		return f.layout
	}
	f.layout.Top = top
	if err := f.find(top); err != nil {
		return Layout{Dir: f.layout.Dir, Top: top, Broken: err.Error()}
	}
	f.layout.Needs = minimal(f.layout.Needs)
	for _, p := range f.layout.Needs {
		if f.isTooMuch(p.Dir) {
			return f.refusal(p.Dir)
		}
	}
	f.layout.Granted = f.layout.grant()
	return f.layout
}

// grant returns what a linked worktree gets of its repository without a question.
func (l Layout) grant() []Path {
	if l.Dir == l.Common || len(l.Needs) != 1 || l.Needs[0] != (Path{l.Common, false}) || !sameOwner(l.Top, l.Common) || !sameOwner(l.Top, l.Dir) {
		return nil
	}
	granted := []Path{{l.Common, true}, {l.Dir, false}}
	for _, name := range []string{"objects", "refs", "logs"} {
		dir := filepath.Join(l.Common, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			granted = append(granted, Path{dir, false})
		}
	}
	return granted
}

// Allow returns the paths that a user has to allow for git to work.
func (l Layout) Allow() []string {
	var names []string
	for _, p := range l.Needs {
		if !slices.ContainsFunc(l.Needs, func(o Path) bool { return o != p && holds(o.Dir, p.Dir) }) {
			names = append(names, p.Dir)
		}
	}
	return names
}

// Allowed reports whether git has all that it needs if the given directories, with all
// in them, are allowed. A git directory that does not name the workspace has to be given
// itself: nothing but a file of the workspace has chosen it.
func (l Layout) Allowed(dirs []string) bool {
	return l.Broken == "" && !slices.ContainsFunc(l.Allow(), func(name string) bool {
		return !slices.ContainsFunc(dirs, func(dir string) bool {
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			return dir == name || holds(dir, name) && !(l.Unproved && name == l.Dir)
		})
	})
}

// Head returns the text of the working tree's HEAD; empty if there is none.
func (l Layout) Head() string {
	if l.Dir == "" || l.Broken != "" {
		return ""
	}
	head, _ := readFile(filepath.Join(l.Dir, "HEAD"), maxPath)
	return head
}

// Why says in a sentence why git does not work for commands that see nothing but the
// workspace, and what helps. It is empty if git works.
func (l Layout) Why() string {
	switch {
	case l.Broken != "":
		return "git does not work in the workspace: " + l.Broken
	case len(l.Needs) == 0:
		return ""
	}
	names := l.Allow()
	quoted, flags := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		quoted[i], flags[i] = fmt.Sprintf("%q", name), "--repository "+escape.Word(name)
	}
	why := fmt.Sprintf("git does not work in the workspace, because its repository is outside, in %s, where commands cannot reach it. Allow it with %s",
		strings.Join(quoted, " and "), strings.Join(flags, " "))
	if slices.Contains(l.Needs, Path{l.Top, true}) {
		why += fmt.Sprintf(", or start in %q", l.Top)
	}
	return why
}

// finder looks for the repository of one workspace.
type finder struct {
	workspace, home string
	layout          Layout
}

// mostLevels bounds how many directories are looked at on the way up.
const mostLevels = 100

// top returns the root of the working tree that the workspace is in. It is empty if there
// is none.
func (f *finder) top() string {
	at := f.workspace
	for range mostLevels {
		if f.begins(at) {
			if at != f.workspace && f.isTooMuch(at) {
				f.layout = f.refusal(at)
			}
			return at
		}
		if at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	return ""
}

// isTooMuch reports whether a directory is a whole file system, or holds the home
// directory with all that a user has.
func (f *finder) isTooMuch(dir string) bool {
	return dir == filepath.Dir(dir) || f.home != "" && holds(dir, f.home)
}

func (f *finder) refusal(dir string) Layout {
	return Layout{Broken: fmt.Sprintf("it would have to see all of %q, which has more than a project; start in a directory with a repository of its own", dir)}
}

// begins reports whether git would take a directory for the root of a working tree, or
// for broken. A directory .git that is no git directory is passed over, as git does.
// Above the workspace this also goes for what belongs to another user, whom git does not
// trust either.
func (f *finder) begins(at string) bool {
	name := filepath.Join(at, ".git")
	info, err := os.Lstat(name)
	if err != nil || at != f.workspace && !sameOwner(f.workspace, name) {
		return false
	}
	if info.IsDir() {
		return isGitDir(name)
	}
	return true
}

// find completes the layout of a working tree.
func (f *finder) find(top string) error {
	name := filepath.Join(top, ".git")
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	git := name
	switch {
	case info.IsDir():
	case info.Mode().IsRegular():
		if git, err = f.follow(name, top); err != nil {
			return err
		}
	case info.Mode()&fs.ModeSymlink != 0 && f.staysInside(name):
		git, _ = filepath.EvalSymlinks(name)
	default:
		return fmt.Errorf("%q is neither a directory nor a file", name)
	}
	f.layout.Dir, f.layout.Common = git, git
	if top != f.workspace {
		f.need(top, true)
	}
	if err := f.common(top); err != nil {
		return err
	}
	f.need(f.layout.Common, false)
	return f.alternates(filepath.Join(f.layout.Common, "objects"), 0)
}

// staysInside reports whether a symbolic link leads to a directory of the workspace.
func (f *finder) staysInside(link string) bool {
	real, err := filepath.EvalSymlinks(link)
	return err == nil && holds(f.workspace, real) && isGitDir(real)
}

// follow returns the git directory that a file .git names.
func (f *finder) follow(name, top string) (string, error) {
	text, err := readFile(name, maxPath)
	if err != nil {
		return "", fmt.Errorf("the file %q cannot be used: %w", name, err)
	}
	to, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", fmt.Errorf("the file %q does not name a git directory", name)
	}
	git, err := resolve(top, to)
	if err != nil {
		return "", fmt.Errorf("the file %q names no directory that can be used: %w", name, err)
	}
	if !isGitDir(git) {
		return "", fmt.Errorf("the file %q names %q, which is no git directory", name, git)
	}
	return git, nil
}

// common finds what the git directory shares with other working trees, and checks that
// the git directory is that of this one.
func (f *finder) common(top string) error {
	git := f.layout.Dir
	switch text, err := readFile(filepath.Join(git, "commondir"), maxPath); {
	case err == nil:
		return f.worktree(top, text)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file commondir of %q cannot be used: %w", git, err)
	}
	if !hasStore(git) {
		return fmt.Errorf("%q has its objects or refs elsewhere", git)
	}
	tree, err := workTree(git)
	if err != nil {
		return err
	}
	switch {
	case tree != "" && tree != top:
		return fmt.Errorf("git works on the files of %q there, which core.worktree in %q names: start there", tree, filepath.Join(git, "config"))
	case tree != "":
		f.layout.OwnPath = true
	case git == filepath.Join(top, ".git") || holds(f.workspace, git):
	case filepath.Base(git) == ".git":
		return fmt.Errorf("the file %q names the git directory of another working tree, %q", filepath.Join(top, ".git"), filepath.Dir(git))
	default:
		f.layout.Unproved = true
	}
	return nil
}

// worktree checks the git directory of a linked worktree: it lies in the common
// directory, and names the working tree.
func (f *finder) worktree(top, commondir string) error {
	git := f.layout.Dir
	common, err := resolve(git, commondir)
	if err != nil {
		return fmt.Errorf("the file commondir of %q cannot be used: %w", git, err)
	}
	if filepath.Dir(git) != filepath.Join(common, "worktrees") || !isGitDir(common) || !hasStore(common) {
		return fmt.Errorf("%q is no worktree of a repository", git)
	}
	back, err := readFile(filepath.Join(git, "gitdir"), maxPath)
	if err == nil {
		back, err = join(git, back)
	}
	if err != nil || back != filepath.Join(top, ".git") {
		return fmt.Errorf("%q is the worktree of another directory; if the workspace was moved, \"git worktree repair\" on the user's machine fixes that", git)
	}
	f.layout.Common, f.layout.OwnPath = common, true
	return nil
}

// need notes a directory that git needs, unless it is in the workspace.
func (f *finder) need(dir string, readOnly bool) {
	if holds(f.workspace, dir) {
		return
	}
	f.layout.OwnPath = true
	f.layout.Needs = append(f.layout.Needs, Path{dir, readOnly})
}

const (
	maxAlternates = 32 // directories of objects
	maxDepth      = 5  // of alternates of alternates, as in git
)

// alternates notes the directories that have further objects.
func (f *finder) alternates(objects string, depth int) error {
	name := filepath.Join(objects, "info", "alternates")
	text, err := readFile(name, maxList)
	if errors.Is(err, fs.ErrNotExist) || depth > maxDepth {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file %q cannot be used: %w", name, err)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		dir, err := resolve(objects, line)
		if err == nil && (filepath.Base(dir) != "objects" || !isGitDir(filepath.Dir(dir))) {
			err = errors.New("it is not the object directory of a repository")
		}
		if err != nil {
			return fmt.Errorf("objects of it are in %q, as the file %q says: %w", line, name, err)
		}
		if len(f.layout.Needs) > maxAlternates {
			return fmt.Errorf("it has more than %d alternates", maxAlternates)
		}
		f.need(dir, true)
		if err := f.alternates(dir, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// minimal leaves out what comes with a directory that holds it.
func minimal(all []Path) (kept []Path) {
	for i, p := range all {
		covers := func(o Path) bool { return holds(o.Dir, p.Dir) && (!o.ReadOnly || p.ReadOnly) }
		if slices.ContainsFunc(kept, covers) || slices.ContainsFunc(all[i+1:], func(o Path) bool { return o.Dir != p.Dir && covers(o) }) {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// holds reports whether a directory is, or holds, a path. Both are clean and absolute.
func holds(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}
