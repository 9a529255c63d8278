//go:build !linux

package pygent_test

import "testing"

// requireOnDisk does nothing on systems that do not report a file's disk space.
func requireOnDisk(*testing.T, string, int64) {}
