package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// tempScript writes the script to a temporary file and returns its path. The
// first command in the file removes the file.
func tempScript(script []byte) (string, error) {
	file, err := os.CreateTemp("", "pygent-script-*")
	if err != nil {
		return "", err
	}
	path := filepath.ToSlash(file.Name())
	_, err = fmt.Fprintf(file, "rm -f %s 2>/dev/null; %s\n", quote(path), script)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return path, nil
}
