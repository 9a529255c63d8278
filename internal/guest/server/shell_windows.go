package server

import "bytes"

// maxArg is the largest script that is passed in argv, in bytes. A command line
// has at most 32,767 characters, and quoting may double the length of the
// script.
const maxArg = 12 << 10

// forShell converts the line endings of a script, because bash takes a carriage
// return at the end of a line as a part of the last word.
func forShell(script []byte) []byte { return bytes.ReplaceAll(script, []byte("\r\n"), []byte("\n")) }

// workingDir returns nothing: the shell sets PWD itself, in its own notation
// for paths.
func workingDir(string) []string { return nil }
