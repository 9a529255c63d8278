package supervise

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// terminate asks the processes of a command to end.
func (g *group) terminate() { g.signal(unix.SIGTERM) }

// kill forces the processes of a command to end. Processes that left the
// session are found only as long as their parent is alive and is one of the
// command's processes.
func (g *group) kill() { g.signal(unix.SIGKILL) }

// signal signals the whole process group in one call. If it signalled one
// process after the other, a shell whose child ended first would start its next
// command.
func (g *group) signal(sig unix.Signal) {
	var all []int
	for _, m := range walk(g.leader, nil, nil) {
		all = append(all, m.pid)
	}
	all = append(all, g.members()...)
	_ = unix.Kill(-g.leader, sig)
	for _, pid := range all {
		if fields := statFields(pid); len(fields) > 2 && string(fields[2]) != strconv.Itoa(g.leader) {
			_ = unix.Kill(pid, sig)
		}
	}
}

func (g *group) alive() bool { return len(g.members()) > 0 }

func (g *group) procs(limit int) ([]Proc, int) {
	members := g.members()
	var procs []Proc
	for _, pid := range members[:min(len(members), limit)] {
		procs = append(procs, Proc{PID: pid, Name: name(pid)})
	}
	return procs, len(members)
}

// members returns the living processes of the session. The number of a session
// is not reused while one of them lives. Dead processes whose parent has ended
// are reaped by PID 1.
func (g *group) members() []int {
	names, err := readNames("/proc/")
	if err != nil {
		return nil
	}
	var members []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		fields := statFields(pid)
		if len(fields) < 4 || string(fields[3]) != strconv.Itoa(g.leader) {
			continue
		}
		switch {
		case runs(fields):
			members = append(members, pid)
		case pid != g.leader && os.Getpid() == 1:
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	return members
}
