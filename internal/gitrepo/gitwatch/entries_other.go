//go:build !linux

package gitwatch

import "os"

// readEntries returns at most n entries of an open directory. Those that were
// read before an error are returned with it.
func readEntries(dir *os.File, n int) ([]entry, error) { return listEntries(dir, n) }
