//go:build !linux

package setid

var children map[string]func()
