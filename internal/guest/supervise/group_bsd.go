//go:build unix && !linux

package supervise

import "syscall"

// terminate asks the processes of a group to end.
func (g *group) terminate() { _ = syscall.Kill(-g.leader, syscall.SIGTERM) }

// kill forces the processes of a group to end.
func (g *group) kill() { _ = syscall.Kill(-g.leader, syscall.SIGKILL) }

// alive reports whether the group has a process left. As long as it has, the
// system does not reuse the group's number as a process id.
func (g *group) alive() bool { return syscall.Kill(-g.leader, 0) == nil }

// procs returns only the leader: the system does not list the members of a
// group.
func (g *group) procs(int) ([]Proc, int) { return []Proc{{PID: g.leader}}, 1 }
