package filelock

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Holder returns the process that has locked a file, and the name of its program; 0 if
// the system does not tell, as of a process that is not seen from here.
func Holder(f *os.File) (pid int, program string) {
	info, err := f.Stat()
	if err != nil {
		return 0, ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0, ""
	}
	defer locks.Close()
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// A waiting one has an arrow in the second field.
		if fields := strings.Fields(lines.Text()); len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == file {
			if pid, err = strconv.Atoi(fields[4]); err == nil && pid > 0 {
				return pid, programOf(pid)
			}
		}
	}
	return 0, ""
}

// programOf returns the name of the program of a process, which may be anything.
func programOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	quoted := strconv.QuoteToGraphic(strings.TrimSuffix(string(name), "\n"))
	return quoted[1 : len(quoted)-1]
}
