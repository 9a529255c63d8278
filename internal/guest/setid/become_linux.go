package setid

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// become calls f on a thread that has exactly the file access rights of other
// for that time. It fails if this process cannot take on that identity. The
// thread is used again afterwards, because a new one is not always available.
// It ends if it cannot be given its old identity back.
func (i identity) become(other identity, f func() error) error {
	done := make(chan error)
	go func() {
		done <- besideMainThread(func() error { return i.lend(other, f) })
	}()
	return <-done
}

// lend does the same on this thread, to which the goroutine is locked.
func (i identity) lend(other identity, f func() error) error {
	defer keepDumpable()()
	err := other.take()
	if err == nil {
		err = f()
	}
	// The capabilities come first, because the other changes need them.
	if i.takeCapabilities() == nil && i.take() == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// besideMainThread calls f on a thread that is not the process's main thread,
// and locks the goroutine to it. The main thread is left alone because the rest
// of the system looks at it, for example for the signal at its parent's end. f
// must unlock the thread.
func besideMainThread(f func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		return f()
	}
	defer runtime.UnlockOSThread()
	done := make(chan error)
	go func() { done <- besideMainThread(f) }()
	return <-done
}

// keepDumpable returns a function that restores the process's dumpable flag. A
// change of identity resets the flag, which decides whether other processes may
// look into this one.
func keepDumpable() (restore func()) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return func() {
		if err == nil {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(was), 0, 0, 0)
		}
	}
}

// take gives this thread the identity. The capabilities are set last, because
// the other steps need them.
func (i identity) take() error {
	if i.takeGroups() != nil {
		return unix.EPERM
	}
	// These two calls report no error, but the previous id.
	_, _ = unix.SetfsgidRetGid(i.gid)
	_, _ = unix.SetfsuidRetUid(i.uid)
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != i.gid || uid != i.uid || i.takeCapabilities() != nil {
		return unix.EPERM
	}
	return nil
}

// takeGroups sets the supplementary groups of this thread only. The function of
// package syscall would set those of all threads.
func (i identity) takeGroups() error {
	var groups []uint32
	for text := range strings.FieldsSeq(i.groups) {
		group, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return err
		}
		groups = append(groups, uint32(group))
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	runtime.KeepAlive(groups)
	if errno != 0 {
		return errno
	}
	return nil
}

// takeCapabilities sets the effective capabilities of this thread. It fails for
// a capability that this process does not have itself.
func (i identity) takeCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective, sets[1].Effective = uint32(i.effective), uint32(i.effective>>32)
	return unix.Capset(&header, &sets[0])
}
