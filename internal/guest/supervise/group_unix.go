//go:build unix

package supervise

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalGroup asks the processes of a group to end, or makes them.
func signalGroup(leader *os.Process, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-leader.Pid, sig)
}

// groupAlive reports whether the group has a process left. The group keeps
// the number of its leader from being given to another process.
func groupAlive(leader *os.Process) bool { return syscall.Kill(-leader.Pid, 0) == nil }

func groupExit(state *os.ProcessState) Exit {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return Exit{Code: -1}
	case status.Signaled():
		return Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	default:
		return Exit{Code: status.ExitStatus()}
	}
}
