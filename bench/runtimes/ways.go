package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/x/pygent"
)

// way is a way to run commands.
type way struct {
	name string
	key  string // its name for child processes
	slow bool   // whether a command takes tens of milliseconds
	open func(ctx context.Context) (place, error)
	// cold runs one command from nothing. If it is nil, that is open and run.
	cold func(ctx context.Context) error
}

// place is where a way runs its commands. It is safe for concurrent use.
type place interface {
	// run runs a script to its end and reads its output. A status other than 0 is
	// an error.
	run(ctx context.Context, script string) error
	close() error
}

// Keys of the ways that are compared by name.
const (
	keyFork        = "fork"
	keyForkBash    = "fork-bash"
	keyGuestDocker = "guest-docker"
	keyGuestSh     = "guest-docker-sh"
	keyGuestLocal  = "guest-local"
	keyExecAPI     = "exec-api"
	keyExecCLI     = "exec-cli"
	keyRunBridge   = "run-bridge"
)

// ways returns the ways to compare, the fastest possible one first. The shell is
// a good part of a command's cost, and bash starts more slowly than sh, so there
// are two images: one has both shells, the small one only sh.
func ways(image, smallImage string) []way {
	return []way{
		{name: "local fork+exec, sh", key: keyFork, open: openFork("sh")},
		{name: "local fork+exec, bash", key: keyForkBash, open: openFork("bash")},
		{name: "guest in Docker", key: keyGuestDocker, open: func(ctx context.Context) (place, error) {
			return openGuest(pygent.NewDockerRuntime(ctx, pygent.WithImage(image)))
		}},
		{name: "guest in Docker, image without bash", key: keyGuestSh, open: func(ctx context.Context) (place, error) {
			return openGuest(pygent.NewDockerRuntime(ctx, pygent.WithImage(smallImage)))
		}},
		{name: "guest locally", key: keyGuestLocal, open: func(ctx context.Context) (place, error) {
			return openGuest(pygent.NewLocalRuntime(ctx))
		}},
		{name: "docker exec by API", key: keyExecAPI, slow: true, open: func(ctx context.Context) (place, error) {
			return openExec(ctx, image)
		}},
		{name: "docker exec by CLI", key: keyExecCLI, slow: true,
			open: func(ctx context.Context) (place, error) { return openExecCLI(ctx, image) },
			cold: func(ctx context.Context) error {
				return command(ctx, "docker", "run", "--rm", "--network", "none", image, "true")
			},
		},
	}
}

// guestPlace is a runtime of pygent.
type guestPlace struct{ pygent.Runtime }

func openGuest(r pygent.Runtime, err error) (place, error) { return guestPlace{r}, err }

func (g guestPlace) run(ctx context.Context, script string) error {
	res, err := g.Bash(ctx, script)
	if err == nil && (res.ExitCode != 0 || res.TimedOut) {
		err = fmt.Errorf("%v", res)
	}
	return err
}

func (g guestPlace) close() error { return g.Cleanup() }

// forkPlace is a directory in which shells are started, which is the fastest
// possible way.
type forkPlace struct{ shell, dir string }

func openFork(shell string) func(context.Context) (place, error) {
	return func(context.Context) (place, error) {
		dir, err := os.MkdirTemp("", "pygent-bench-")
		return forkPlace{shell, dir}, err
	}
}

func (f forkPlace) run(ctx context.Context, script string) error {
	c := exec.CommandContext(ctx, f.shell, "-c", script)
	c.Dir = f.dir
	return drained(c)
}

func (f forkPlace) close() error { return os.RemoveAll(f.dir) }

// drained runs a command and reads its output to the end through a pipe.
func drained(c *exec.Cmd) error {
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, out)
	if wait := c.Wait(); wait != nil {
		return fmt.Errorf("%s: %w", c, wait)
	}
	return err
}

// command runs a program of this machine.
func command(ctx context.Context, name string, args ...string) error {
	return drained(exec.CommandContext(ctx, name, args...))
}
