//go:build linux

// Package escape attacks the runtimes from within, as a hostile model or a
// hostile program in a container would. Every attack has a victim: files, keys
// and processes that the test plants on this machine, and that no attack may
// read or change. "make escape" runs it, with a minute of random attacks.
package escape

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/x/pygent/internal/testkit/cmdtest"
)

const (
	// planted is the variable that tells a process that its home and its
	// environment are a [victim]'s.
	planted = "ESCAPE_VICTIM"
	// command is the variable with the path of the command pygent.
	command = "ESCAPE_COMMAND"
)

// TestMain runs the tests in a new process whose whole environment is planted,
// because a process cannot change what /proc/PID/environ shows of it.
func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		return // attacks take long
	}
	if os.Getenv(planted) == "" {
		os.Exit(begin())
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// begin builds the command, while the caches of the real home can still be used,
// and runs the tests.
func begin() int {
	dir, err := os.MkdirTemp("", "escape-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, err := cmdtest.Build(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return again(func(cmd *exec.Cmd, _ *victim) error {
		cmd.Env = append(cmd.Env, command+"="+binary)
		return nil
	})
}

// again runs this program again in a planted environment, and returns its exit
// code.
func again(change func(*exec.Cmd, *victim) error, args ...string) int {
	v, err := plant()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant what is to be attacked:", err)
		return 1
	}
	defer v.remove()
	if len(args) == 0 {
		args = os.Args[1:]
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = v.environ(os.Environ())
	if change != nil {
		if err := change(cmd, v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	return 0
}
