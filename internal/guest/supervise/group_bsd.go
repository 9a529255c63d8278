//go:build unix && !linux

package supervise

import "syscall"

// terminate asks the processes of a group to end.
func (g *group) terminate() { _ = syscall.Kill(-g.leader, syscall.SIGTERM) }

// kill makes them.
func (g *group) kill() { _ = syscall.Kill(-g.leader, syscall.SIGKILL) }

// alive reports whether the group has a process left. The group keeps the
// number of its leader from being given to another process.
func (g *group) alive() bool { return syscall.Kill(-g.leader, 0) == nil }

// procs tells of the leader only: a group does not tell of whom it consists.
func (g *group) procs(int) ([]Proc, int) { return []Proc{{PID: g.leader}}, 1 }
