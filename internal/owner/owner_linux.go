package owner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineID returns an id of this installation of the system. The system's own
// id should not be shown to others, see machine-id(5), so a hash of it is used.
func machineID() string {
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		data, err := os.ReadFile(name)
		id := strings.TrimSpace(string(data))
		if err == nil && len(id) == 32 {
			code := hmac.New(sha256.New, []byte(id))
			code.Write([]byte("github.com/x/pygent"))
			return hex.EncodeToString(code.Sum(nil)[:16])
		}
	}
	return ""
}

// bootID returns an id that changes at every boot of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// namespace returns the ids of the PID namespace and of the time namespace. It
// is empty if /proc belongs to another PID namespace.
func namespace() string {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	ids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	clocks, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		clocks = "time" // the kernel has only one
	}
	return ids + "," + clocks
}

// startTime returns when a process started, in clock ticks since the boot, and
// whether it still runs. It uses the fields state, num_threads and starttime of
// /proc/pid/task/pid/stat; see proc(5). /proc/pid/stat has the same ones, but qemu-user
// makes that file up where a process reads its own, with another time for each thread.
// A process would take itself for dead.
func startTime(pid int) (start string, runs bool, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
	if err != nil {
		return "", false, err
	}
	// The program's name is in parentheses and may contain anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", false, errors.New("stat is too short")
	}
	// A process whose main thread has ended still runs as long as it has other
	// threads.
	ended := (fields[0] == "Z" || fields[0] == "X") && fields[17] == "1"
	return fields[19], !ended, nil
}

// look returns the state of the process with the given id and start time. A
// process may be hidden from us, so it counts as dead only if the kernel says
// that there is no such process.
func look(pid int, start string) State {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return Dead
	}
	found, runs, err := startTime(pid)
	switch {
	case err != nil:
		return Unknown
	case runs && found == start:
		return Alive
	default:
		return Dead
	}
}

// current returns the id and the start time of this process.
func current() (pid int, start string) {
	pid = os.Getpid()
	start, _, _ = startTime(pid) // if it is empty, nobody can tell whether this process is alive
	return pid, start
}
