package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// tempScript returns the path of a file with the script, whose first words
// remove it.
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
