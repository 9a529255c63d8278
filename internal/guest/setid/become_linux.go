package setid

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// become calls f on a thread that has another's rights to files meanwhile, and no
// others. What this process cannot become is refused. The thread is used again, as
// a new one cannot always be had, unless it does not become what it was.
func (i identity) become(other identity, f func() error) error {
	done := make(chan error)
	go func() {
		done <- besideMainThread(func() error { return i.lend(other, f) })
	}()
	return <-done
}

// lend does it on this thread, to which its goroutine is locked.
func (i identity) lend(other identity, f func() error) error {
	defer keepDumpable()()
	err := other.take()
	if err == nil {
		err = f()
	}
	// Whatever else changes the identity takes capabilities.
	if i.takeCapabilities() == nil && i.take() == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// besideMainThread calls f locked to a thread that is not the process's first: that
// one has a part in what the process is to others, as in the signal at the end of
// its parent. It is for f to unlock the thread.
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

// keepDumpable returns a function that undoes what a change of identity makes of
// whether others may look into this process.
func keepDumpable() (restore func()) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return func() {
		if err == nil {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(was), 0, 0, 0)
		}
	}
}

// take gives this thread the identity. The capabilities come last: they are what
// the rest takes.
func (i identity) take() error {
	if i.takeGroups() != nil {
		return unix.EPERM
	}
	// These two tell of no error, but what it was before.
	_, _ = unix.SetfsgidRetGid(i.gid)
	_, _ = unix.SetfsuidRetUid(i.uid)
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != i.gid || uid != i.uid || i.takeCapabilities() != nil {
		return unix.EPERM
	}
	return nil
}

// takeGroups sets the supplementary groups of this thread alone: the function of
// package syscall sets those of all.
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

// takeCapabilities makes those of the identity the effective ones. That fails for
// one that this process does not have itself.
func (i identity) takeCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective, sets[1].Effective = uint32(i.effective), uint32(i.effective>>32)
	return unix.Capset(&header, &sets[0])
}
