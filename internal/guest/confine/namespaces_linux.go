package confine

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces returns how to start a child of the given user so that it can
// confine itself with namespaces.
func Namespaces(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}
	if uid != 0 {
		// Root gets no user namespace: in one, it could not reach the files of
		// other users, not even those in the workspace.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // needed for the setup, and dropped afterwards
	}
	return attr
}
