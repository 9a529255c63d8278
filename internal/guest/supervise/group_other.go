//go:build !unix && !windows

package supervise

import (
	"os"
	"os/exec"
)

const groupsAreSure = false

// group is only the first process of a command: this system has no groups.
type group struct{ leader *os.Process }

func startGroup(cmd *exec.Cmd) (*group, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &group{leader: cmd.Process}, nil
}

func (g *group) terminate() { _ = g.leader.Kill() }

func (g *group) kill() { _ = g.leader.Kill() }

// alive is called after the first process has ended.
func (g *group) alive() bool { return false }

func (g *group) procs(int) ([]Proc, int) { return []Proc{{PID: g.leader.Pid}}, 1 }

func (g *group) close() {}

func groupExit(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }
