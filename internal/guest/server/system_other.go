//go:build !linux

package server

import "os"

func bootID() string { return "" }

func outputPipe() (read, write *os.File, err error) { return os.Pipe() }

func inputPipe() (read, write *os.File, err error) { return os.Pipe() }

// scriptFile writes the script to a temporary file and returns its path.
func scriptFile(script []byte) (*os.File, string, error) {
	path, err := tempScript(script)
	return nil, path, err
}
