//go:build unix

package pygent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownGroup puts a command into a session of its own: it is the leader of its
// process group, and has no terminal on which a program could ask.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// groupAlive reports whether a process group has a member that has not ended.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil && !groupDead(group) }

// groupDead reports whether all members of a group have ended but were not
// reaped, which is what becomes of orphans in a container without an init
// process. Without /proc it cannot tell, and says no.
func groupDead(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended and was reaped
		}
		// The name of the program, in parentheses, may hold anything.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 3 || fields[2] != strconv.Itoa(group) {
			continue
		}
		if state := fields[0]; state != "Z" && state != "X" {
			return false
		}
	}
	return true
}

// groupEnds waits until a process group is empty, and gives up after a while.
func groupEnds(group int, patience time.Duration) bool {
	if !groupAlive(group) {
		return true
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		<-tick.C
		if !groupAlive(group) {
			return true
		}
	}
	return false
}

// endGroup terminates a process group, and kills what is left of it after a
// grace.
func endGroup(group int) {
	syscall.Kill(-group, syscall.SIGTERM)
	if !groupEnds(group, killGrace) {
		syscall.Kill(-group, syscall.SIGKILL)
	}
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
