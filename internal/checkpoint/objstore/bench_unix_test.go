//go:build unix

package objstore_test

import (
	"syscall"
	"time"
)

// cpuTime returns the time of processors that this process has used, which does
// not depend on what else runs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// childTime returns that of the processes that this one has started and waited for.
func childTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
