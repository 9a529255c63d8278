//go:build !linux

package server

import (
	"fmt"
	"os"
)

func kernel() string { return "" }

func outputPipe() (read, write *os.File, err error) { return os.Pipe() }

// scriptFile returns a file with the script and its path, or nothing where
// the script can go through argv. The file is removed by its own first words.
func scriptFile(script []byte) (*os.File, string, error) {
	if throughArg(script) {
		return nil, "", nil
	}
	file, err := os.CreateTemp("", "pygent-script-*")
	if err != nil {
		return nil, "", err
	}
	if _, err = fmt.Fprintf(file, "rm -f '%s'; %s\n", file.Name(), script); err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, "", err
	}
	return file, "'" + file.Name() + "'", nil
}
