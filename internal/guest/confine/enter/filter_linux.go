package enter

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch is the number of this architecture in a seccomp filter (AUDIT_ARCH_*).
var arch = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}[runtime.GOARCH]

// otherABI is the bit that marks calls of x32, the second system call interface
// of amd64.
const otherABI = 0x40000000

// Offsets of the call's number and of its architecture in the data of a filter.
const (
	offsetCall = 0
	offsetArch = 4
)

// leaveKeyrings makes the next program lose access to the user's keys in the
// kernel, such as Kerberos tickets. Neither namespaces nor Landlock do that: the
// session's keyring is inherited, and the user's keyring can be linked to it.
func leaveKeyrings() error {
	// A new session keyring is only a second line of defence, so it may fail, for
	// example because the quota of keys is used up.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	return refuse(unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL)
}

// refuse makes system calls of this thread, and of what it executes, fail as if
// the kernel did not have them. Calls of other architectures fail in the same
// way.
func refuse(calls ...uint32) error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	code := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: arch, Jt: 1},
		{Code: answer, K: absent},
		{Code: load, K: offsetCall},
		{Code: and, K: ^uint32(otherABI)},
	}
	for _, call := range calls {
		code = append(code, unix.SockFilter{Code: equal, K: call, Jf: 1}, unix.SockFilter{Code: answer, K: absent})
	}
	code = append(code, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("refuse calls: %w", os.NewSyscallError("seccomp", errno))
	}
	return nil
}
