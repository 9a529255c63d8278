//go:build !linux

package guest_test

func subreaping() bool { return false }
