package objstore

import (
	"path"
	"strings"

	"github.com/x/pygent/internal/treedir"
)

// dependencies are directories that other programs fill and can fill again.
var dependencies = map[string]bool{"node_modules": true, ".venv": true, "__pycache__": true}

const (
	ignoreFile    = treedir.IgnoreFile
	maxIgnoreFile = 256 << 10 // bytes of it that are read
	maxPatterns   = 10_000    // of one file
)

// gitDir is the name of a repository's own directory, or of the file that leads to it.
const gitDir = ".git"

// OfGit reports whether something is a directory .git, or in one. Nothing of that is
// left out of a tree because of its name: a repository without its logs, tags or
// packs, or without a branch that is called node_modules/x, is damaged.
func OfGit(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if element == gitDir {
			return true
		}
	}
	return false
}

// pattern is a line of a .gitignore file.
type pattern struct {
	elements []string
	negated  bool
	dirOnly  bool
	anywhere bool // it is compared with the last element alone
}

// parseIgnore parses a .gitignore file. It leaves out lines that match nothing.
func parseIgnore(text string) (patterns []pattern) {
	for line := range strings.Lines(text) {
		if p, ok := parsePattern(strings.TrimRight(line, "\r\n")); ok && len(patterns) < maxPatterns {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

func parsePattern(line string) (p pattern, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return p, false
	}
	line, p.negated = strings.CutPrefix(line, "!")
	line, p.dirOnly = strings.CutSuffix(line, "/")
	p.anywhere = !strings.Contains(line, "/")
	p.elements = strings.Split(strings.ReplaceAll(strings.TrimPrefix(line, "/"), "[!", "[^"), "/")
	for _, e := range p.elements {
		if _, err := path.Match(e, ""); e == "" || err != nil {
			return p, false
		}
	}
	return p, true
}

// matches reports whether a pattern matches a path, relative to the directory
// of its file.
func (p pattern) matches(elements []string, dir bool) bool {
	switch {
	case p.dirOnly && !dir:
		return false
	case p.anywhere:
		return matchElement(p.elements[0], elements[len(elements)-1])
	}
	// reached[i] says that the elements of the pattern so far match the first i
	// elements of the path.
	reached := make([]bool, len(elements)+1)
	reached[0] = true
	for at, e := range p.elements {
		reached = p.step(reached, elements, e, at == len(p.elements)-1)
	}
	return reached[len(elements)]
}

// step goes on by one element of the pattern. "**" stands for any number of
// elements, and at the end for one or more.
func (p pattern) step(reached []bool, elements []string, e string, last bool) []bool {
	next := make([]bool, len(reached))
	any := false
	for i := range reached {
		switch {
		case e != "**":
			next[i] = i > 0 && reached[i-1] && matchElement(e, elements[i-1])
		case last:
			next[i] = any
		default:
			next[i] = any || reached[i]
		}
		any = any || reached[i]
	}
	return next
}

func matchElement(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // the pattern was checked
	return ok
}

// level is a directory on the way to the entry that is being scanned.
type level struct {
	dir      string // "" for the top
	ignores  bool   // it has a .gitignore, so the source says
	loaded   bool
	patterns []pattern
}

// ignored reports whether the .gitignore files of the levels name something.
// The deepest file that says something decides, and there its last line.
func ignored(levels []level, name string, dir bool) bool {
	for i := len(levels) - 1; i >= 0; i-- {
		l := levels[i]
		rel := strings.TrimPrefix(strings.TrimPrefix(name, l.dir), "/")
		elements := strings.Split(rel, "/")
		for j := len(l.patterns) - 1; j >= 0; j-- {
			if l.patterns[j].matches(elements, dir) {
				return !l.patterns[j].negated
			}
		}
	}
	return false
}
