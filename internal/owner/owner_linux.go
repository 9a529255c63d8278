package owner

import (
	"fmt"
	"os"
	"strings"
)

// bootID changes with every start of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// namespace names the process id namespace: in another one, ids mean others.
func namespace() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return link
}

// startTime returns when a process started, in clock ticks since the boot, and
// "" when there is none. See proc(5), field 22 of stat; a zombie has ended.
func startTime(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name of the program, in parentheses, may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
