package guest_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// subreaping reports whether this process can become the parent of its orphaned
// descendants. User-mode emulators do not support that.
func subreaping() bool {
	var is int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0) == nil
}
