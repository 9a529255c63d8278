package guest_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// subreaping reports whether the kernel, or what emulates it, makes a process
// the owner of its descendants.
func subreaping() bool {
	var is int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0) == nil
}
