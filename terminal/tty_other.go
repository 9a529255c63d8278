//go:build !linux

package terminal

import "os"

// endReads does nothing: a read of the terminal that waits takes the next line.
func (t *tty) endReads() {}

// dropOutput does nothing.
func dropOutput(*os.File) {}

// notifyStopped does nothing: the signal of Ctrl-Z stops the process, which puts the
// terminal right when it goes on.
func notifyStopped(chan<- os.Signal) {}

// letStop does nothing: nothing else happens at that signal.
func letStop() (end func()) { return func() {} }
