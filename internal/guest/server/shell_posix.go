//go:build !windows

package server

// maxArg is the largest script that goes through argv.
const maxArg = 96 << 10

// forShell returns a script as the shell is to read it.
func forShell(script []byte) []byte { return script }

// workingDir tells programs the directory by the name that we know it by.
func workingDir(dir string) []string { return []string{"PWD=" + dir} }
