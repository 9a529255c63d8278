// Package setid keeps commands from making files with the setuid or setgid
// bit: root of a container is root outside as well, and whoever finds such a
// file there runs it with root's rights.
//
// A seccomp filter looks at every system call that takes a file's mode. It is
// installed on one thread of the guest, and whatever that thread starts
// inherits it, for good. The guest itself is not under the filter: the kernel
// hands it the calls with such a bit, and it makes them without the bit in the
// caller's place. So programs that insist on the bit, as package managers and
// archivers do, go on and find it missing. Where the kernel hands over no
// calls, they are refused.
//
// System calls that a filter cannot look through do not exist for commands:
// openat2 and io_uring, for which callers have a substitute, those of other
// architectures, and those that are newer than this package.
package setid

import "errors"

// Level is what becomes of the bits that a command sets.
type Level string

// The levels. The zero value stands for no protection at all.
const (
	Stripped Level = "stripped" // the call succeeds without them
	Refused  Level = "refused"  // the call fails
)

// ErrUnsupported tells that the kernel installs no filter, or not for this
// process.
var ErrUnsupported = errors.New("the kernel installs no seccomp filter here")
