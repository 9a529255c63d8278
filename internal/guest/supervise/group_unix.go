//go:build unix

package supervise

import (
	"os"
	"os/exec"
	"syscall"
)

// A process can leave its group.
const groupsAreSure = false

// group is the processes of a command: a process group that is a session as
// well.
type group struct{ leader int }

func startGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{leader: cmd.Process.Pid}, nil
}

func (g *group) close() {}

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
