// Package gitwatch tells what changed of the files by which git repositories
// have programs run: their configuration, which can name programs for nearly
// everything git does, hooks, attributes, and what these point to. Whoever
// writes one of them runs a program of his at the next git status of somebody
// else. The package never runs git, and reads below a directory only, whatever
// links there are. It finds changes and prevents none.
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
)

// Steers reports whether a path leads into a repository's own files: whether
// one of its names is .git, in any spelling that a file system takes for it.
func Steers(name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), isGit)
}

// Leads reports whether a path below a directory [Steers], or does so once links
// are followed.
func Leads(dir, name string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return true // nothing is known of it
	}
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsAbs(name) {
		name = rel // what lies above dir is of no concern
	}
	if Steers(filepath.ToSlash(name)) {
		return true
	}
	rel, err := filepath.Rel(resolve(dir), resolve(filepath.Join(dir, name)))
	return err == nil && Steers(filepath.ToSlash(rel))
}

// resolve follows the links of an absolute path, also those that lead to what is
// not there yet. ".." is the directory above the one that a link led to.
func resolve(name string) string {
	const mostLinks = 255
	links := 0
	at, todo := rootOf(name), names(name)
	for len(todo) > 0 {
		next := filepath.Join(at, todo[0]) // at has no links, so that Join may take ".." away
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

// names are the parts of a path behind its volume, as they are written.
func names(name string) []string {
	return strings.Split(filepath.ToSlash(name[len(filepath.VolumeName(name)):]), "/")
}

// isGit reports whether a name is .git for some file system: Windows ignores
// case, dots and spaces at the end, a stream's name, and has short names; macOS
// ignores case and characters of no width.
func isGit(name string) bool {
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

// Snapshot is what the files were like at a time.
type Snapshot struct {
	files map[string]string // by path: what the file was like
	Cut   bool              // there was more to look at than the bounds allow
}

// Take looks at all repositories in some directories, and below. A directory
// that cannot be read has none.
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

// Change is a file that is not what it was.
type Change struct {
	Path string
	How  string // "new", "changed" or "removed"
}

// String describes the change. A name cannot break out of its quotes.
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

// late are directories that hold much and seldom a repository: they are looked
// at last, so that they do not use up what is allowed.
var late = map[string]bool{
	"node_modules": true, "vendor": true, ".venv": true, "venv": true, "site-packages": true,
	"target": true, "__pycache__": true, ".cache": true,
}

// unwatched are the directories of a repository that hold data alone.
var unwatched = map[string]bool{"objects": true, "refs": true, "logs": true, "hooks": true, "lfs": true}

// isRepository reports whether a directory is a repository's own: git takes any
// for one that has these names in it, whatever it is called.
func isRepository(dir string, names map[string]bool) bool {
	return isGit(path.Base(dir)) || names["head"] && (names["objects"] || names["commondir"])
}
