//go:build unix

package gitrepo

import (
	"os"
	"syscall"
)

// sameOwner reports whether two files belong to the same user.
func sameOwner(a, b string) bool {
	var uid [2]uint32
	for i, name := range []string{a, b} {
		info, err := os.Lstat(name)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		uid[i] = stat.Uid
	}
	return uid[0] == uid[1]
}
