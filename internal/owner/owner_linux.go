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
// is not to be told to others, see machine-id(5), but what is made of it is.
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

// bootID changes with every start of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// namespace names the namespaces of process ids and of clocks. It is empty where
// /proc shows processes by other ids than ours.
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
		clocks = "time" // a kernel that has one alone
	}
	return ids + "," + clocks
}

// startTime returns when a process started, in clock ticks since the boot, and
// whether it still runs. See proc(5): state, num_threads and starttime of stat.
func startTime(pid int) (start string, runs bool, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, err
	}
	// The name of the program, in parentheses, may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", false, errors.New("stat is too short")
	}
	// A process lives on whose first thread alone has ended.
	ended := (fields[0] == "Z" || fields[0] == "X") && fields[17] == "1"
	return fields[19], !ended, nil
}

// look tells whether the process with an id is the one that started then. A
// process may be hidden from us: only the kernel's word counts that there is none.
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
	start, _, _ = startTime(pid) // empty: nobody can tell whether it lives
	return pid, start
}
