//go:build !windows

package shell

import "path/filepath"

const remedy = "there is neither bash nor sh in PATH"

// candidates returns the paths where a shell may be, the best one first.
func candidates(env, more []string) []string {
	dirs := append(filepath.SplitList(lookup(env, "PATH")), more...)
	return append(in(dirs, "bash"), in(dirs, "sh")...)
}
