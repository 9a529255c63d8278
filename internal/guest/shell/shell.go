// Package shell finds the shell that runs commands.
package shell

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrNone is the error of a machine without a shell. It says what to do.
var ErrNone = errors.New("no shell: " + remedy)

// Find returns the path of bash where the machine has it, else of sh. env is
// the environment in which commands will run. The directories in more are looked
// into after those of PATH; Windows has its own.
func Find(env []string, more ...string) (string, error) {
	for _, path := range candidates(env, more) {
		if filepath.IsAbs(path) && usable(path) {
			return path, nil
		}
	}
	return "", ErrNone
}

// usable reports whether a path is that of a program.
func usable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// lookup returns the value of a variable. Of several values the last counts.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if n, value, ok := strings.Cut(env[i], "="); ok && VariableName(n) == VariableName(name) {
			return value
		}
	}
	return ""
}

// VariableName returns the form of a variable's name by which it is told from
// others. Windows takes Path and PATH for one.
func VariableName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// in returns the paths of a program in each of some directories.
func in(dirs []string, program string) []string {
	var paths []string
	for _, dir := range dirs {
		if dir != "" {
			paths = append(paths, filepath.Join(dir, program))
		}
	}
	return paths
}
