//go:build !windows

package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// fallbackEditors are looked for if the user has named no editor.
var fallbackEditors = []string{"vi", "nano"}

// runInFront runs a program that has the terminal to itself: Ctrl-C there is meant
// for it alone. If something stops it, it is continued, since nobody else could.
func runInFront(ctx context.Context, cmd *exec.Cmd, terminal *os.File) error {
	fd := int(terminal.Fd())
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: fd}
	defer toFront(fd) // also if the program cannot be started, which is known only after that
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var mu sync.Mutex // guards ended, and that pid is this program
	ended := false
	defer context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})()
	status, err := waitContinuing(pid, func() { mu.Lock(); ended = true; mu.Unlock() })
	_ = cmd.Process.Release()
	switch {
	case err != nil:
		return fmt.Errorf("wait for it: %w", err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case status.Signaled():
		return fmt.Errorf("%w: %s", errKilled, status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("it ended with exit code %d", status.ExitStatus())
	}
	return nil
}

// waitContinuing waits for the end of a program, and continues it when it stops.
func waitContinuing(pid int, ended func()) (status syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			ended()
			return status, err
		}
		_ = syscall.Kill(-pid, syscall.SIGCONT)
	}
}

// toFront makes this process's group the one that has the terminal again.
func toFront(fd int) {
	signal.Ignore(syscall.SIGTTOU) // which stops those who do this without having the terminal
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, syscall.Getpgrp())
	signal.Reset(syscall.SIGTTOU)
}
