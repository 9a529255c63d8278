package enter

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch is the number of this architecture in a filter, as AUDIT_ARCH_ has it.
var arch = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}[runtime.GOARCH]

// otherABI marks, on amd64, the calls of its second interface, x32.
const otherABI = 0x40000000

// Where a filter finds the number of the call and its architecture.
const (
	offsetCall = 0
	offsetArch = 4
)

// leaveKeyrings takes the user's keys in the kernel, such as Kerberos tickets,
// from the next program. No namespace and no Landlock does: the keyring of the
// session is inherited, and that of the user can be linked to it.
func leaveKeyrings() error {
	// A new one for the session. It is no more than a second lock, and there
	// may be no room for it.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	return refuse(unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL)
}

// refuse has calls of this thread, and of what it executes, fail as in a kernel
// that does not have them. So do all calls of another architecture.
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
