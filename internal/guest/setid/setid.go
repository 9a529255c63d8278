// Package setid keeps commands from making files with the setuid or setgid bit.
// Root of a container may be root outside of it as well, and whoever finds such
// a file there can run it with root's rights.
//
// A seccomp filter checks every system call that takes the mode of a file. It
// is installed on one thread of the guest, and everything that this thread
// starts inherits it permanently. The guest itself is not under the filter. The
// kernel hands the guest each call that has such a bit, and the guest makes the
// call in the caller's place without the bit. So programs that insist on the
// bit, such as package managers and archivers, continue and merely find it
// missing. If the kernel cannot hand over calls, the filter refuses them.
//
// System calls that a filter cannot check fail as if they did not exist:
// openat2 and io_uring, for which programs have a fallback, the calls of other
// architectures, and calls that are newer than this package.
package setid

import "errors"

// Level says what happens to the bits that a command sets.
type Level string

// The levels. The zero value means no protection at all.
const (
	Stripped Level = "stripped" // the call succeeds, but the bits are dropped
	Refused  Level = "refused"  // the call fails
)

// ErrUnsupported means that the kernel installs no filter, or not for this
// process.
var ErrUnsupported = errors.New("the kernel installs no seccomp filter here")
