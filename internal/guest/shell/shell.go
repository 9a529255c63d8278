// Package shell finds the shell that runs commands.
package shell

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNone means that the machine has no shell. Its text says what to do.
var ErrNone = errors.New("no shell: " + remedy)

// Find returns the path of bash if the machine has it, else of sh. env is the
// environment of the commands. The directories in more are searched after those
// of PATH; Windows ignores them.
func Find(env []string, more ...string) (string, error) {
	for _, path := range candidates(env, more) {
		if filepath.IsAbs(path) && usable(path) {
			return path, nil
		}
	}
	return "", ErrNone
}

// usable reports whether path is an executable program.
func usable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// lookup returns the value of a variable. If there are several, the last one
// counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if n, value, ok := strings.Cut(env[i], "="); ok && VariableName(n) == VariableName(name) {
			return value
		}
	}
	return ""
}

// VariableName returns a variable's name in the form in which names are
// compared. On Windows Path and PATH are the same variable.
func VariableName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// in returns the path that program would have in each of the directories.
func in(dirs []string, program string) []string {
	var paths []string
	for _, dir := range dirs {
		if dir != "" {
			paths = append(paths, filepath.Join(dir, program))
		}
	}
	return paths
}
