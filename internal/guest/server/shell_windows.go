package server

import "bytes"

// maxArg is the largest script that goes through argv. A command line is at
// most 32,767 characters long, and quoting may double those of the script.
const maxArg = 12 << 10

// forShell returns a script as the shell is to read it: bash takes the carriage
// return at the end of a line for a part of its last word.
func forShell(script []byte) []byte { return bytes.ReplaceAll(script, []byte("\r\n"), []byte("\n")) }

// workingDir is for the shell to tell: it has its own way to write paths.
func workingDir(string) []string { return nil }
