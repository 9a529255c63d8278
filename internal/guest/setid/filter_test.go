package setid

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// System call numbers, written down separately from those of the filter.
const (
	none = -1 // the architecture has no such call
	trap = retNotify
	perm = retErrno | errPerm
	gone = retErrno | errNoSys
	busy = retErrno | errBusy
)

// filterCases are system calls with their numbers on amd64 and arm64.
var filterCases = map[string]struct {
	amd64, arm64 int64
	args         [6]uint64
	want         uint32
}{
	"read":                             {0, 63, [6]uint64{}, retAllow},
	"chmod":                            {90, none, [6]uint64{0, 0o755}, retAllow},
	"chmod setuid":                     {90, none, [6]uint64{0, 0o4755}, trap},
	"chmod sticky":                     {90, none, [6]uint64{0, 0o1777}, retAllow},
	"fchmod":                           {91, 52, [6]uint64{3, 0o755}, retAllow},
	"fchmod setgid":                    {91, 52, [6]uint64{3, 0o2755}, trap},
	"fchmod, more than a mode":         {91, 52, [6]uint64{3, 0xdeadbeef_00100000 | 0o4755}, trap},
	"fchmod, nothing but what is more": {91, 52, [6]uint64{3, 0xffffffff_00000000}, retAllow},
	"fchmodat":                         {268, 53, [6]uint64{3, 0, 0o755, 0o6000}, retAllow},
	"fchmodat both":                    {268, 53, [6]uint64{3, 0, 0o6755}, trap},
	"fchmodat2":                        {452, 452, [6]uint64{3, 0, 0o755}, retAllow},
	"fchmodat2 setuid":                 {452, 452, [6]uint64{3, 0, 0o4000}, trap},
	"open, mode is rubbish":            {2, none, [6]uint64{0, 0o2, 0o6777}, retAllow},
	"open creating":                    {2, none, [6]uint64{0, 0o102, 0o666}, retAllow},
	"open creating setuid":             {2, none, [6]uint64{0, 0o102, 0o4666}, trap},
	"openat, mode is rubbish":          {257, 56, [6]uint64{3, 0, 0o2000000, ^uint64(0)}, retAllow},
	"openat, directory, rubbish":       {257, 56, [6]uint64{3, 0, 0o200000 | 0o40000, ^uint64(0)}, retAllow},
	"openat creating":                  {257, 56, [6]uint64{3, 0, 0o102, 0o644}, retAllow},
	"openat creating setgid":           {257, 56, [6]uint64{3, 0, 0o102, 0o2644}, trap},
	"openat without a name":            {257, 56, [6]uint64{3, 0, 0o20200002, 0o4644}, trap},
	"openat, half of O_TMPFILE":        {257, 56, [6]uint64{3, 0, 0o20000002, 0o4644}, trap},
	"creat":                            {85, none, [6]uint64{0, 0o644}, retAllow},
	"creat setuid":                     {85, none, [6]uint64{0, 0o4644}, trap},
	"mknod":                            {133, none, [6]uint64{0, 0o100644}, retAllow},
	"mknod setuid":                     {133, none, [6]uint64{0, 0o104755}, perm},
	"mknodat pipe":                     {259, 33, [6]uint64{3, 0, 0o10644}, retAllow},
	"mknodat setgid":                   {259, 33, [6]uint64{3, 0, 0o102755}, perm},
	"mkdir, which knows no such bit":   {83, none, [6]uint64{0, 0o6777}, retAllow},
	"mkdirat":                          {258, 34, [6]uint64{3, 0, 0o6777}, retAllow},
	"openat2":                          {437, 437, [6]uint64{}, gone},
	"io_uring_setup":                   {425, 425, [6]uint64{}, gone},
	"io_uring_enter":                   {426, 426, [6]uint64{}, gone},
	"io_uring_register":                {427, 427, [6]uint64{}, gone},
	"clone3":                           {435, 435, [6]uint64{}, retAllow},
	"listns":                           {470, 470, [6]uint64{}, retAllow},
	"a call of tomorrow":               {471, 471, [6]uint64{}, gone},
	"x32 open":                         {0x40000002, none, [6]uint64{0, 0o102, 0o4666}, gone},
	"x32 chmod":                        {0x40000000 + 90, none, [6]uint64{0, 0o4755}, gone},
	"x32 read":                         {0x40000000, none, [6]uint64{}, gone},
	"a call that a tracer undid":       {0xffffffff, 0xffffffff, [6]uint64{}, retAllow},
	"seccomp strict":                   {317, 277, [6]uint64{0, 8}, retAllow},
	"seccomp filter":                   {317, 277, [6]uint64{1, 1}, retAllow},
	"seccomp listener":                 {317, 277, [6]uint64{1, 8}, busy},
	"seccomp listener of all threads":  {317, 277, [6]uint64{1, 0x19}, busy},
}

// If nobody answers calls, the filter refuses those that it would hand over.
func TestFilterOfEachArchitecture(t *testing.T) {
	for _, handed := range []uint32{trap, perm} {
		for arch, a := range abis {
			vm := machine(t, arch, handed)
			for name, tt := range filterCases {
				nr := map[string]int64{"amd64": tt.amd64, "arm64": tt.arm64}[arch]
				if nr == none {
					continue
				}
				want := tt.want
				if want == trap {
					want = handed
				}
				require.Equal(t, want, decide(t, vm, a.arch, uint32(nr), tt.args), "%s: %s", arch, name)
			}
		}
	}
}

func TestFilterKnowsNoOtherArchitecture(t *testing.T) {
	const i386, arm, riscv = 0x40000003, 0x40000028, 0xc00000f3
	for arch, a := range abis {
		vm := machine(t, arch, retNotify)
		for _, other := range []uint32{i386, arm, riscv, 0, a.arch ^ 1} {
			for nr := range uint32(500) {
				require.EqualValues(t, gone, decide(t, vm, other, nr, [6]uint64{}), "%s: %d on %x", arch, nr, other)
			}
		}
	}
	_, err := program("riscv64", retNotify)
	require.ErrorIs(t, err, ErrUnsupported)
}

// A chmod whose mode has one of the bits never passes, whatever other bits it
// has.
func TestFilterLooksAtEveryBitOfAMode(t *testing.T) {
	for arch, a := range abis {
		vm := machine(t, arch, retNotify)
		for mode := range uint64(1 << 16) {
			want := uint32(retAllow)
			if mode&0o6000 != 0 {
				want = trap
			}
			require.Equal(t, want, decide(t, vm, a.arch, uint32(a.fchmod), [6]uint64{3, mode | 0xabcd<<32}), "%o", mode)
		}
	}
}

// machine returns a virtual machine that runs the filter like the kernel.
func machine(t *testing.T, arch string, trap uint32) *bpf.VM {
	t.Helper()
	p, err := program(arch, trap)
	require.NoError(t, err)
	vm, err := bpf.NewVM(p)
	require.NoError(t, err)
	return vm
}

// decide returns the filter's result for a call. The machine reads numbers in
// network byte order, but the kernel reads them in the machine's byte order.
func decide(t *testing.T, vm *bpf.VM, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	data := binary.BigEndian.AppendUint32(nil, nr)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...)
	for _, arg := range args {
		data = binary.BigEndian.AppendUint32(data, uint32(arg))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	action, err := vm.Run(data)
	require.NoError(t, err)
	return uint32(action)
}
