//go:build !unix

package pygent

import (
	"os"
	"os/exec"
	"time"
)

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// groupAlive reports false: what a command leaves behind is not known here.
func groupAlive(int) bool { return false }

// groupEnds reports true, likewise.
func groupEnds(int, time.Duration) bool { return true }

// endGroup kills the process alone.
func endGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

// exitCode is the status of the shell, or -1.
func exitCode(state *os.ProcessState) int {
	if state == nil {
		return -1
	}
	return state.ExitCode()
}
