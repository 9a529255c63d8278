// Package gitwatch detects changes of the files that make git run programs: the
// configuration of repositories, which can name programs for nearly everything
// that git does, their hooks and attributes, and the files that these refer to.
// Whoever writes one of them can make the next git status of another user run a
// program. The package never runs git. It reads only below the given
// directories, whatever symbolic links there are. It reports changes and
// prevents none.
package gitwatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Steers reports whether a path leads into the files of a repository itself. It
// does if one of its elements is .git, in any spelling that some file system
// accepts.
func Steers(name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), isGit)
}

// Leads reports whether a path below a directory [Steers], as it is or once its
// symbolic links are followed.
func Leads(dir, name string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return true // to be safe: the path cannot be resolved
	}
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsAbs(name) {
		name = rel // elements above dir do not matter
	}
	if Steers(filepath.ToSlash(name)) {
		return true
	}
	rel, err := filepath.Rel(resolve(dir), resolve(filepath.Join(dir, name)))
	return err == nil && Steers(filepath.ToSlash(rel))
}

// resolve follows the symbolic links of an absolute path, even if its end does
// not exist yet. As in the kernel, ".." after a link is the parent of the
// link's target.
func resolve(name string) string {
	const mostLinks = 255
	links := 0
	at, todo := rootOf(name), names(name)
	for len(todo) > 0 {
		next := filepath.Join(at, todo[0]) // at has no symbolic links, so Join may simplify ".."
		todo = todo[1:]
		target, err := os.Readlink(next)
		if err != nil || links == mostLinks {
			at = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			at = rootOf(target)
		}
		todo = append(names(target), todo...)
	}
	return at
}

func rootOf(name string) string { return filepath.VolumeName(name) + string(filepath.Separator) }

// names returns the elements of a path after its volume, as they are written.
func names(name string) []string {
	return strings.Split(filepath.ToSlash(name[len(filepath.VolumeName(name)):]), "/")
}

// isGit reports whether some file system takes a name for .git. Windows ignores
// case, dots and spaces at the end and the name of a stream, and has short
// names. macOS ignores case and characters of zero width.
func isGit(name string) bool {
	if name == "" || name[0] < utf8.RuneSelf && !strings.ContainsRune(".gG", rune(name[0])) {
		return false // as nearly all names of a workspace
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.Map(func(r rune) rune {
		if r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return name == ".git" || strings.HasPrefix(name, "git~")
}

// Snapshot is the state of the watched files at one time.
type Snapshot struct {
	files map[string]string // the state of each file, by path
	Cut   bool              // the limits were reached before everything was looked at
}

// Take looks at all repositories in the given directories and below. A
// directory that cannot be read counts as empty.
func Take(ctx context.Context, dirs ...string) Snapshot {
	s := Snapshot{files: map[string]string{}}
	for _, dir := range dirs {
		w, err := newWalk(ctx, dir)
		if err != nil {
			continue
		}
		w.run()
		for name, state := range w.files {
			s.files[filepath.Join(dir, filepath.FromSlash(name))] = state
		}
		s.Cut = s.Cut || w.cut
	}
	return s
}

// Repositories returns the git directories in a directory and below, within the limits
// of a look.
func Repositories(ctx context.Context, dir string) (found []string) {
	w, err := newWalk(ctx, dir)
	if err != nil {
		return nil
	}
	w.run()
	for _, name := range w.found {
		found = append(found, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return found
}

// Change is a file that differs between two snapshots.
type Change struct {
	Path string
	How  string // "new", "changed" or "removed"
}

// String describes the change. The path is quoted and escaped, so that it
// cannot pretend to be other text.
func (c Change) String() string { return fmt.Sprintf("%q is %s", c.Path, c.How) }

// Changes returns what is different in a later snapshot, sorted by path.
func (s Snapshot) Changes(later Snapshot) []Change {
	var all []Change
	for name, state := range later.files {
		if before, known := s.files[name]; !known {
			all = append(all, Change{name, "new"})
		} else if before != state {
			all = append(all, Change{name, "changed"})
		}
	}
	for name := range maps.Keys(s.files) {
		if _, there := later.files[name]; !there && !later.Cut {
			all = append(all, Change{name, "removed"})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// late are directories that are usually large and seldom hold a repository.
// They are looked at last, so that they do not use up the limits.
var late = map[string]bool{
	"node_modules": true, "vendor": true, ".venv": true, "venv": true, "site-packages": true,
	"target": true, "__pycache__": true, ".cache": true,
}

// unwatched are the directories of a repository that hold only data. Hooks are
// handled separately.
var unwatched = map[string]bool{"objects": true, "refs": true, "logs": true, "hooks": true, "lfs": true}

// isRepository reports whether a directory is a repository's own directory. Its
// name does not matter: git accepts any directory with these entries.
func isRepository(dir string, entries []entry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return strings.EqualFold(e.name, name) })
	}
	return isGit(path.Base(dir)) || has("head") && (has("objects") || has("commondir"))
}
