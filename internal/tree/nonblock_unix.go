//go:build unix

package tree

import "syscall"

// nonblock keeps an open from blocking on a named pipe.
const nonblock = syscall.O_NONBLOCK
