package setid

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// bits are the setuid and setgid bits, which no file may get.
const bits = 0o6000

// createFlags are the flags with which open makes a file. Without them the
// kernel ignores the mode, which may then have any value.
const createFlags = 0o100 | 0o20000000 // O_CREAT, __O_TMPFILE

// Results of the filter; see seccomp(2).
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000
)

// Error numbers. They are the same on all architectures of this package.
const (
	errPerm  = 1
	errBusy  = 16
	errNoSys = 38
)

// Byte offsets in the data of the filter. Of each argument the filter reads the
// lower half, which comes first on the architectures of this package.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

// noCall is the number of a call that a tracer has cancelled.
const noCall = 0xffffffff

// lastCall is the newest system call whose effect is known here: listns of
// Linux 6.19. Of the calls added after openat2, only fchmodat2 sets modes.
const lastCall = 470

// abi has the system call numbers of an architecture. A negative number means
// that the architecture does not have the call.
type abi struct {
	arch                                uint32 // AUDIT_ARCH_* of the architecture
	open, openat, creat, mknod, mknodat int64
	chmod, fchmod, fchmodat             int64
	seccomp                             int64
}

// System calls that have the same number on all architectures.
const (
	callIOUringSetup    = 425
	callIOUringEnter    = 426
	callIOUringRegister = 427
	callOpenat2         = 437
	callFchmodat2       = 452
)

// abis has the architectures by their names in Go.
var abis = map[string]abi{
	"amd64": {
		arch: 0xc000003e,
		open: 2, openat: 257, creat: 85, mknod: 133, mknodat: 259,
		chmod: 90, fchmod: 91, fchmodat: 268,
		seccomp: 317,
	},
	"arm64": {
		arch: 0xc00000b7,
		open: -1, openat: 56, creat: -1, mknod: -1, mknodat: 33,
		chmod: -1, fchmod: 52, fchmodat: 53,
		seccomp: 277,
	},
}

// program returns the filter of an architecture. Calls that set one of the bits
// get the result trap. Calls for which the number alone decides are answered
// from the kernel's cache and cost nothing.
func program(arch string, trap uint32) ([]bpf.Instruction, error) {
	a, ok := abis[arch]
	if !ok {
		return nil, fmt.Errorf("%w: there is no filter for %s", ErrUnsupported, arch)
	}
	p := known(a.arch)
	for _, rule := range rules(a, trap) {
		if rule.call >= 0 {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(rule.call), SkipTrue: uint8(len(rule.block))})
			p = append(p, rule.block...)
		}
	}
	return append(p, bpf.RetConstant{Val: retAllow}), nil
}

// known decides calls of another architecture and calls that the filter does
// not know. It leaves the number of the call in the register.
func known(arch uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno | errNoSys},
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: noCall, SkipFalse: 1},
		bpf.RetConstant{Val: retAllow},
		// The numbers of x32, the second interface of amd64, are also greater
		// than this.
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: lastCall, SkipFalse: 1},
		bpf.RetConstant{Val: retErrno | errNoSys},
	}
}

// rule decides one system call. Every path through its block ends with a
// result.
type rule struct {
	call  int64
	block []bpf.Instruction
}

// rules are sorted by how often their calls are made, the most frequent first.
func rules(a abi, trap uint32) []rule {
	absent := []bpf.Instruction{bpf.RetConstant{Val: retErrno | errNoSys}}
	return []rule{
		{a.openat, creating(2, 3, trap)},
		{a.open, creating(1, 2, trap)},
		{a.creat, withMode(1, trap)},
		{a.mknod, withMode(1, retErrno|errPerm)},
		{a.mknodat, withMode(2, retErrno|errPerm)},
		{a.chmod, withMode(1, trap)},
		{a.fchmod, withMode(1, trap)},
		{a.fchmodat, withMode(2, trap)},
		{callFchmodat2, withMode(2, trap)},
		{a.seccomp, listening()},
		{callOpenat2, absent},
		{callIOUringSetup, absent},
		{callIOUringEnter, absent},
		{callIOUringRegister, absent},
	}
}

// argument loads an argument of the call.
func argument(i int) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgs + 8*uint32(i), Size: 4}
}

// withMode returns trap if the mode in an argument has one of the bits.
func withMode(mode int, trap uint32) []bpf.Instruction {
	return []bpf.Instruction{
		argument(mode),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1},
		bpf.RetConstant{Val: trap},
		bpf.RetConstant{Val: retAllow},
	}
}

// creating does the same for a call that has a mode only with certain flags.
func creating(flags, mode int, trap uint32) []bpf.Instruction {
	return append([]bpf.Instruction{
		argument(flags),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: createFlags, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
	}, withMode(mode, trap)...)
}

// listening refuses to install another filter with a listener. Such a listener
// could tell the kernel to continue a call that this filter would catch.
// Kernels that allow only one listener for a process refuse that by themselves.
func listening() []bpf.Instruction {
	const setModeFilter, newListener = 1, 8
	return []bpf.Instruction{
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: setModeFilter, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		argument(1),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newListener, SkipFalse: 1},
		bpf.RetConstant{Val: retErrno | errBusy},
		bpf.RetConstant{Val: retAllow},
	}
}
