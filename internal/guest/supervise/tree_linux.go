package supervise

import (
	"bytes"
	"errors"
	"os"
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

// descendants returns every process below pid, parents before children.
func descendants(pid int) []int {
	tree := children(pid, nil)
	for i := 0; i < len(tree) && len(tree) < maxTree; i++ {
		tree = children(tree[i], tree)
	}
	return tree
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
// zombie.
func alive(pid int) bool {
	fields := statFields(pid)
	return len(fields) > 0 && fields[0][0] != 'Z' && fields[0][0] != 'X'
}

// statFields returns the fields of /proc/pid/stat from the third one on.
func statFields(pid int) [][]byte {
	stat, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// signalChild signals child if its parent still is ppid. The id may have passed
// to an unrelated process since it was looked up. A pidfd keeps referring to
// the process that was checked.
func signalChild(child, ppid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return
		}
		// Old kernels and strict seccomp profiles do not have pidfds.
		if parent(child) == ppid {
			_ = unix.Kill(child, sig)
		}
		return
	}
	defer unix.Close(fd)
	if parent(child) != ppid {
		return
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		_ = unix.Kill(child, sig)
	}
}

// signalTree signals every descendant of root, parents first, and returns how
// many there were. It leaves out the processes in skip and their descendants.
func signalTree(root int, sig unix.Signal, skip map[int]bool) int {
	type link struct{ pid, ppid int }
	var queue []link
	add := func(ppid int) {
		for _, pid := range children(ppid, nil) {
			if !skip[pid] {
				queue = append(queue, link{pid, ppid})
			}
		}
	}
	add(root)
	for i := 0; i < len(queue) && i < maxTree; i++ {
		// A process with a pending signal completes no fork, so its list of
		// children is final once it was signalled.
		if sig == unix.SIGTERM {
			add(queue[i].pid)
			signalChild(queue[i].pid, queue[i].ppid, sig)
			signalChild(queue[i].pid, queue[i].ppid, unix.SIGCONT)
			continue
		}
		signalChild(queue[i].pid, queue[i].ppid, sig)
		add(queue[i].pid)
	}
	return len(queue)
}

// killPass kills every descendant of root that it finds. It stops all of them
// first, so that they cannot fork faster than they are killed. Processes that
// appear in the meantime are left to the next pass.
func killPass(root int, skip map[int]bool) {
	seen := 0
	for range 50 {
		n := signalTree(root, unix.SIGSTOP, skip)
		if n <= seen {
			break
		}
		seen = n
	}
	signalTree(root, unix.SIGKILL, skip)
}

// KillTree kills all descendants of a process, repeatedly, until none is alive
// or patience has passed. It returns how many are still alive. The process
// itself is not killed. If it is a subreaper, it remains the ancestor of
// descendants whose parents die.
func KillTree(root int, patience time.Duration) int { return killTree(root, nil, patience, nil) }

// killTree kills all descendants of root, repeatedly, until none is alive or
// patience has passed. It returns how many are still alive. reap may be nil; it
// is called to reap dead children of this process.
func killTree(root int, skip map[int]bool, patience time.Duration, reap func()) int {
	deadline := time.Now().Add(patience)
	for pause := minKillPause; ; pause = min(2*pause, maxKillPause) {
		killPass(root, skip)
		if reap != nil {
			reap()
		}
		left := countAlive(root, skip)
		if left == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

// countAlive returns how many descendants of root are alive.
func countAlive(root int, skip map[int]bool) int {
	n := 0
	for _, pid := range descendantsBut(root, skip) {
		if alive(pid) {
			n++
		}
	}
	return n
}

func descendantsBut(root int, skip map[int]bool) []int {
	if len(skip) == 0 {
		return descendants(root)
	}
	var tree []int
	for _, pid := range children(root, nil) {
		if !skip[pid] {
			tree = append(append(tree, pid), descendants(pid)...)
		}
	}
	return tree
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
