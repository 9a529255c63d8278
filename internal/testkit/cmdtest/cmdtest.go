// Package cmdtest runs the command pygent in tests. It builds the command once
// for all tests of a package, and keeps the developer's own settings out of its
// environment.
package cmdtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// binary is the command under test. Main builds it before any test runs.
var binary string

// cache is the cache of all commands: only the first of them unpacks the guest. Main
// makes it before any test runs.
var cache string

// Main builds the command, runs the tests and ends the process. If they pass, it
// calls after, whose error makes them fail; after may be nil. Where only short tests are
// wanted, it builds nothing, and [Command] skips the test.
func Main(m *testing.M, after func() error) {
	code, err := run(m, after)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, after func() error) (code int, err error) {
	dir, err := os.MkdirTemp("", "pygent-cmdtest-*")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	flag.Parse()
	cache = filepath.Join(dir, "cache")
	if !testing.Short() {
		if binary, err = Build(dir); err != nil {
			return 1, err
		}
	}
	if code = m.Run(); code == 0 && after != nil {
		err = after()
	}
	return code, err
}

// built names a variable with the path of the command. scripts/test.sh builds it once for
// the tests of all packages.
const built = "PYGENT_TEST_COMMAND"

// Build builds the command in a directory, and returns its path.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "pygent")
	if done := os.Getenv(built); done != "" {
		program, err := os.ReadFile(done)
		if err != nil {
			return "", fmt.Errorf("take the command that %s names: %w", built, err)
		}
		return path, os.WriteFile(path, program, 0o755)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/x/pygent/cmd/pygent") // without what only debuggers read
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
}

// Command prepares a run of the command in an empty directory and home, with a directory
// for temporary files of its own, in which it finds nothing of others, and with a cache
// that all commands of the test's program share. Of pygent's settings its environment
// has only those in env. The command is killed when ctx ends, and after ten minutes, so
// that a test that waits for it in vain fails by itself and not with all others of its
// package.
func Command(ctx context.Context, t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the command")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(Clean(os.Environ()), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "XDG_CACHE_HOME="+cache), env...)
	return cmd
}

// ours are the beginnings of the variables that say what pygent does, where its
// files are, and how the developer's terminal is.
var ours = []string{"PYGENT_", "OPENAI_", "HOME=", "XDG_", "TERM_PROGRAM=", "TMUX", "STY=", "XTERM_VERSION=", "NO_COLOR=", "CLICOLOR="}

// Clean returns an environment without what configures pygent, and without what says how
// the developer's terminal is.
func Clean(env []string) []string {
	var kept []string
	for _, v := range env {
		if !slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(v, name) }) {
			kept = append(kept, v)
		}
	}
	return kept
}
