//go:build !linux

package terminal

// endReads does nothing: a read of the terminal that waits takes the next line.
func (t *tty) endReads() {}
