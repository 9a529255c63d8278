//go:build unix

package pygent

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup puts a command into a session of its own: it is the leader of its
// process group, and has no terminal on which a program could ask.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// groupAlive reports whether a process group has a member that is not dead.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }

// endGroup terminates a process group, and kills what is left of it after a
// grace. It returns when the group has gone, or was killed.
func endGroup(group int) {
	syscall.Kill(-group, syscall.SIGTERM)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(killGrace); time.Now().Before(end); <-tick.C {
		if !groupAlive(group) {
			return
		}
	}
	syscall.Kill(-group, syscall.SIGKILL)
}

// exitCode is the status as a shell reports it: 128+n for signal n.
func exitCode(state *os.ProcessState) int {
	if state == nil {
		return -1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
