//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package store

import "os"

const onWindows = false

// lockFile does nothing: these systems have no lock that ends with the process
// that holds it.
func lockFile(*os.File, bool) error { return nil }

func unlockFile(*os.File) error { return nil }
