package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxTree is the largest number of processes that one walk looks at.
const maxTree = 1 << 16

// children appends the processes whose parent is pid to into.
func children(pid int, into []int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := readNames(tasks)
	if err != nil {
		return into
	}
	for _, tid := range threads {
		list, err := readProc(tasks + tid + "/children")
		if errors.Is(err, os.ErrNotExist) && tid == strconv.Itoa(pid) && !hasChildrenFiles() {
			return childrenByScan(pid, into)
		}
		for field := range bytes.FieldsSeq(list) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				into = append(into, child)
			}
		}
	}
	return into
}

// hasChildrenFiles reports whether the kernel was built with the files in /proc
// that list children. It looks for the file of this process, which exists as
// long as this process runs.
func hasChildrenFiles() bool {
	return unix.Access("/proc/self/task/"+strconv.Itoa(unix.Getpid())+"/children", unix.F_OK) == nil
}

// childrenByScan finds the children by looking at every process, for kernels
// without the files that list them.
func childrenByScan(pid int, into []int) []int {
	names, err := readNames("/proc/")
	if err != nil {
		return into
	}
	for _, name := range names {
		if child, err := strconv.Atoi(name); err == nil && parent(child) == pid {
			into = append(into, child)
		}
	}
	return into
}

// parent returns the parent of pid, or 0 if there is no such process. The
// process name in the file may contain anything, so the fields are counted from
// the end of the name.
func parent(pid int) int {
	fields := statFields(pid)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}

// alive reports whether pid still runs: it has neither disappeared nor become a
// zombie. The first thread can be a zombie while others still run, and have children.
func alive(pid int) bool { return runs(statFields(pid)) }

// runs tells from the fields of a process whether it is alive.
func runs(fields [][]byte) bool {
	const state, threads = 0, 17
	if len(fields) <= threads {
		return false
	}
	first := fields[state][0]
	return first != 'Z' && first != 'X' || len(fields[threads]) > 1 || fields[threads][0] > '1'
}

// statFields returns the fields of /proc/pid/stat from the third one on.
func statFields(pid int) [][]byte {
	stat, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// member is a process of a tree, with the parent that it had when it was found.
type member struct{ pid, ppid int }

// signal signals a member of root's tree, if it still is one. The id may have passed to
// an unrelated process since it was found. A pidfd keeps referring to the process that
// was checked.
func (m member) signal(root int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return
		}
		// Old kernels and strict seccomp profiles do not have pidfds.
		if m.belongs(root) {
			_ = unix.Kill(m.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if !m.belongs(root) {
		return
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = unix.Kill(m.pid, sig)
	}
}

// belongs reports whether the parent is that with which m was found, or root, the
// subreaper to which the children of dead processes go.
func (m member) belongs(root int) bool {
	ppid := parent(m.pid)
	return ppid == m.ppid || ppid == root
}

// walk returns the descendants of root, parents before children, and calls found, if it
// is set, for each before it looks for that one's children. It leaves out the processes
// in skip and their descendants.
func walk(root int, skip map[int]bool, found func(member)) []member {
	var tree []member
	add := func(ppid int) {
		for _, pid := range children(ppid, nil) {
			if !skip[pid] {
				tree = append(tree, member{pid, ppid})
			}
		}
	}
	add(root)
	for i := 0; i < len(tree) && i < maxTree; i++ {
		if found != nil {
			found(tree[i])
		}
		add(tree[i].pid)
	}
	return tree
}

// termTree sends TERM to every descendant of root, and wakes those that are stopped.
func termTree(root int) {
	for _, m := range walk(root, nil, nil) {
		m.signal(root, unix.SIGTERM)
		m.signal(root, unix.SIGCONT)
	}
}

// killPass kills every descendant of root that it finds. It stops all of them
// first, so that they cannot fork faster than they are killed. Processes that
// appear in the meantime are left to the next pass.
func killPass(root int, skip map[int]bool) {
	seen := 0
	for range 50 {
		// A process with a pending signal completes no fork, so its list of
		// children is final once it was signalled.
		n := len(walk(root, skip, func(m member) { m.signal(root, unix.SIGSTOP) }))
		if n <= seen {
			break
		}
		seen = n
	}
	// Children first: those of a dead process get another parent, where this walk has
	// been already.
	for _, m := range slices.Backward(walk(root, skip, nil)) {
		m.signal(root, unix.SIGKILL)
	}
}

// KillTree kills all descendants of a process, repeatedly, until none is alive
// or patience has passed. It returns how many are still alive. The process
// itself is not killed. If it is a subreaper, it remains the ancestor of
// descendants whose parents die.
func KillTree(root int, patience time.Duration) int { return killTree(root, nil, patience, nil) }

// killTree kills all descendants of root, repeatedly, until none is alive or
// patience has passed. It returns how many are still alive. reap may be nil; it
// is called to reap dead children of this process.
//
// A descendant whose parent dies during a walk may come to a list that the walk has
// read already. Then the parent, which is dead, is one that the walk before had not
// found dead. So such a one counts as alive: the walk after it finds its children.
func killTree(root int, skip map[int]bool, patience time.Duration, reap func()) int {
	deadline := time.Now().Add(patience)
	var dead map[int]bool
	for pause := minKillPause; ; pause = min(2*pause, maxKillPause) {
		killPass(root, skip)
		if reap != nil {
			reap()
		}
		left, known := 0, dead
		dead = make(map[int]bool)
		for _, m := range walk(root, skip, nil) {
			dead[m.pid] = !alive(m.pid)
			if !dead[m.pid] || !known[m.pid] {
				left++
			}
		}
		if left == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

// living returns the descendants of root that are alive. If there seems to be none it
// looks again, since one whose parent dies during a walk can be missed.
func living(root int) (found []member) {
	for range 2 {
		found = slices.DeleteFunc(walk(root, nil, nil), func(m member) bool { return !alive(m.pid) })
		if len(found) > 0 {
			break
		}
	}
	return found
}

// name returns the name of a process.
func name(pid int) string {
	comm, err := readProc("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(bytes.TrimSuffix(comm, []byte("\n")), []byte("?")))
}

// readProc reads a file of /proc with plain system calls. Package os would
// first try to use the poller.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 1024)
	for len(buf) < 16*maxTree {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, cap(buf))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return buf, err
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

// readNames lists a directory of /proc.
func readNames(path string) ([]string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if n <= 0 || err != nil {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
