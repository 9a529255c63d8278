//go:build !linux

package filelock

import "os"

// Holder returns the process that has locked a file, and the name of its program; 0 if
// the system does not tell, which this one never does.
func Holder(*os.File) (pid int, program string) { return 0, "" }
