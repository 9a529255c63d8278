package pygent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// refuse notes the keys that a project's file must leave to the user.
func (f *configFile) refuse() {
	if len(f.refused) == 0 {
		return
	}
	slices.SortFunc(f.refused, func(a, b string) int { return f.offsets[a] - f.offsets[b] })
	places := make([]string, len(f.refused))
	for i, key := range f.refused {
		line, _ := f.position(f.offsets[key])
		places[i] = fmt.Sprintf("%s (line %d)", key, line)
	}
	const most = 10
	if more := len(places) - most; more > 0 {
		places = append(places[:most], fmt.Sprintf("%d more", more))
	}
	offset := f.offsets[f.refused[0]]
	line, column := f.position(offset)
	f.faults = append(f.faults, fault{offset, &ConfigError{Source: f.path, Line: line, Column: column, Err: fmt.Errorf(
		"a file found in the working directory may not set %s: whoever wrote the project could send your key elsewhere or reach files outside of it; "+
			"if you trust the file, name it with --config %s, or set these in ~/%s",
		strings.Join(places, ", "), f.path, homeFile)}})
}

// confineInitialFiles makes the initial files of a project's file absolute,
// and refuses those that are not the project's own: initial files are copied
// to where a model reads them.
func (c *Config) confineInitialFiles(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the project's directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the project's directory: %w", bareError(err))
	}
	defer root.Close()
	for i, path := range c.InitialFiles {
		if err := staysInside(root, path); err != nil {
			return &valueError{path: fmt.Sprintf("[%d]", i), reason: fmt.Sprintf("%s %s", quote(path), err)}
		}
		c.InitialFiles[i] = filepath.Join(dir, path)
	}
	return nil
}

var (
	errLeavesProject = errors.New("leads out of the project; only --config FILE or ~/" + homeFile + " may name such files")
	errTooManyFiles  = errors.New("holds too many files to be checked; name it in a file given with --config")
)

// staysInside checks that a path, and whatever symlinks below it lead to,
// stays in root. What does not exist is left for the copying to report.
func staysInside(root *os.Root, path string) error {
	if !filepath.IsLocal(path) {
		return errLeavesProject
	}
	c := confinement{root: root, seen: make(map[string]bool), left: 100_000}
	return c.follow(filepath.Clean(path))
}

// confinement is a walk that goes where a copy that follows symlinks would.
type confinement struct {
	root *os.Root
	seen map[string]bool // directories walked, by their real path
	left int             // entries still to be looked at: the user waits
}

// follow resolves a path through all its symlinks and walks what is there.
func (c *confinement) follow(path string) error {
	info, err := c.root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return errLeavesProject
	}
	if !info.IsDir() {
		return nil
	}
	base, err := filepath.EvalSymlinks(c.root.Name())
	if err != nil {
		return bareError(err)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(base, path))
	if err != nil {
		return bareError(err)
	}
	if path, err = filepath.Rel(base, real); err != nil || !filepath.IsLocal(path) {
		return errLeavesProject
	}
	if c.seen[path] {
		return nil
	}
	c.seen[path] = true
	return c.walk(path)
}

// walk follows every symlink below a directory.
func (c *confinement) walk(dir string) error {
	return fs.WalkDir(c.root.FS(), filepath.ToSlash(dir), func(name string, entry fs.DirEntry, err error) error {
		if c.left--; c.left < 0 {
			return errTooManyFiles
		}
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return nil // what cannot be read cannot be copied either
		}
		return c.follow(filepath.FromSlash(name))
	})
}
