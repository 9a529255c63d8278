package confine

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces says how a child that is to be confined has to be started, for a
// user.
func Namespaces(uid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}
	if uid != 0 {
		// Root gets no user namespace: files of others would be out of its
		// reach, also in the workspace.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for setting up, and dropped then
	}
	return attr
}
