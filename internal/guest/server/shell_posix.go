//go:build !windows

package server

// maxArg is the largest script that is passed in argv, in bytes.
const maxArg = 96 << 10

// forShell converts a script for the shell; here nothing needs to be done.
func forShell(script []byte) []byte { return script }

// workingDir returns the variables that tell programs the name of their working
// directory as the workspace has it, without resolving symbolic links.
func workingDir(dir string) []string { return []string{"PWD=" + dir} }
