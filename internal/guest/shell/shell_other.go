//go:build !windows

package shell

import "path/filepath"

const remedy = "there is neither bash nor sh in PATH"

// candidates are the paths where a shell may be, the best one first.
func candidates(env []string) []string {
	dirs := filepath.SplitList(lookup(env, "PATH"))
	dirs = append(dirs, "/usr/local/bin", "/usr/bin", "/bin")
	return append(in(dirs, "bash"), in(dirs, "sh")...)
}
