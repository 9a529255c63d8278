// Package fakebash is a shell for tests on machines without one. On Windows it
// takes the place of the bash that comes with Git.
package fakebash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// Act acts as the shell, or as a program that the shell runs, if the test's
// program was started under that name. It does not return then. TestMain must
// call it first.
func Act() {
	switch strings.TrimSuffix(strings.ToLower(filepath.Base(os.Args[0])), ".exe") {
	case "bash":
		os.Exit(run(os.Args[1:]))
	case "hold":
		hold(os.Args[1])
	}
}

// Install copies the test's program to a path, to be the shell there.
func Install(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	program, err := os.ReadFile(self) // not a link, which Windows would not remove while this runs
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o755)
}

// run runs bash -c SCRIPT.
func run(args []string) int {
	if len(args) < 2 || args[0] != "-c" {
		fmt.Fprintln(os.Stderr, "bash: want -c and a script")
		return 2
	}
	script, err := syntax.NewParser().Parse(strings.NewReader(args[1]), "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	shell, err := interp.New(interp.StdIO(os.Stdin, os.Stdout, os.Stderr), interp.ExecHandlers(programs))
	if err == nil {
		err = shell.Run(context.Background(), script)
	}
	var status interp.ExitStatus
	switch {
	case errors.As(err, &status):
		return int(status)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// programs runs the programs that the tests use: rm, and hold FILE. The latter
// is a process of its own that writes its id to a file and then waits to be
// killed.
func programs(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		here := interp.HandlerCtx(ctx)
		switch args[0] {
		case "rm":
			if err := os.Remove(args[len(args)-1]); err != nil {
				fmt.Fprintln(here.Stderr, err)
				return interp.ExitStatus(1)
			}
			return nil
		case "hold":
			self, err := os.Executable()
			if err != nil {
				return err
			}
			c := &exec.Cmd{Path: self, Args: args, Dir: here.Dir, Stdout: here.Stdout, Stderr: here.Stderr}
			return c.Run()
		}
		return next(ctx, args)
	}
}

func hold(file string) {
	temp := file + ".tmp"
	err := os.WriteFile(temp, []byte(fmt.Sprint(os.Getpid())), 0o644)
	if err = errors.Join(err, os.Rename(temp, file)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		time.Sleep(time.Hour)
	}
}
