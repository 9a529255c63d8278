package filelock

import "strconv"

// Process names a process that [Holder] has returned. The name of its program may not be
// known: some systems hide the processes of other users.
func Process(pid int, program string) string {
	name := strconv.Itoa(pid)
	if program != "" {
		name += " (" + program + ")"
	}
	return name
}
