//go:build !windows

package screen

// controlling is the name of the process's controlling terminal.
const controlling = "/dev/tty"
