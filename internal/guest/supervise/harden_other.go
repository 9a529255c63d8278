//go:build !linux

package supervise

// Harden does nothing: there is no such protection on this system.
func Harden() {}
