package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Limits of the files that are read, in bytes.
const (
	maxPath   = 8 << 10  // a file that holds one path
	maxList   = 64 << 10 // a list of paths
	maxConfig = 1 << 20
)

// headText is what git accepts as a HEAD.
var headText = regexp.MustCompile(`^(ref: *refs/[^\x00-\x20]+|[0-9a-f]{40}|[0-9a-f]{64})$`)

// isGitDir reports whether a directory is a git directory by what is in it: its own
// files, or those of a linked worktree.
func isGitDir(dir string) bool {
	head, err := readFile(filepath.Join(dir, "HEAD"), maxPath)
	if err != nil || !headText.MatchString(head) {
		return false
	}
	if hasStore(dir) {
		return true
	}
	info, err := os.Lstat(filepath.Join(dir, "commondir"))
	if err == nil {
		return info.Mode().IsRegular()
	}
	// One whose objects or refs are links is git's, too, but cannot be used.
	_, err = os.Lstat(filepath.Join(dir, "objects"))
	return err == nil
}

// hasStore reports whether objects and refs are in a directory itself.
func hasStore(dir string) bool {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// resolve returns the directory that a path names which was found in a file. Relative
// paths begin at base.
func resolve(base, name string) (string, error) {
	at, err := join(base, name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(at)
	switch {
	case err != nil:
		return "", errors.New("it is not there")
	case real != at:
		return "", errors.New("it leads through a symbolic link")
	}
	if info, err := os.Lstat(at); err != nil || !info.IsDir() {
		return "", errors.New("it is no directory")
	}
	return at, nil
}

// join returns the path that was found in a file, without looking at what is there.
func join(base, name string) (string, error) {
	odd := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError }
	switch {
	case name == "":
		return "", errors.New("the path is empty")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, odd):
		return "", errors.New("the path has characters that cannot be shown")
	case filepath.IsAbs(name):
		return filepath.Clean(name), nil
	}
	return filepath.Join(base, name), nil
}

// readFile returns the content of a regular file without newlines at the end. A larger
// one than limit is an error, and so is a link or a pipe.
func readFile(name string, limit int64) (string, error) {
	before, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	if !before.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil || !os.SameFile(before, now) {
		return "", errors.New("it is changed just now")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(data)) > limit {
		return "", fmt.Errorf("it has more than %d bytes", limit)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// setting is a line of git's configuration.
var setting = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)$`)

// workTree returns the working tree that the configuration of a git directory names;
// empty if it names none.
func workTree(git string) (string, error) {
	value := ""
	for _, name := range []string{"config", "config.worktree"} {
		text, err := readFile(filepath.Join(git, name), maxConfig)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("the file %q cannot be used: %w", filepath.Join(git, name), err)
		}
		if v, ok := coreWorkTree(text); ok {
			value = v
		}
	}
	if value == "" {
		return "", nil
	}
	if strings.ContainsAny(value, "\"\\;#") && filepath.Separator == '/' {
		return "", fmt.Errorf("core.worktree in the configuration of %q cannot be read", git)
	}
	tree, err := join(git, value)
	if err != nil {
		return "", fmt.Errorf("core.worktree in the configuration of %q: %w", git, err)
	}
	if real, err := filepath.EvalSymlinks(tree); err == nil {
		tree = real
	}
	return tree, nil
}

// coreWorkTree returns the value of core.worktree in a configuration. It may have
// quotes around it.
func coreWorkTree(text string) (value string, found bool) {
	inCore := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, _ := strings.Cut(line[1:], "]")
			inCore, line = strings.EqualFold(strings.TrimSpace(head), "core"), strings.TrimSpace(rest)
		}
		if m := setting.FindStringSubmatch(line); m != nil && inCore && strings.EqualFold(m[1], "worktree") {
			value, found = m[2], true
		}
	}
	if v, ok := strings.CutPrefix(value, `"`); ok {
		value = strings.TrimSuffix(v, `"`)
	}
	return value, found
}
