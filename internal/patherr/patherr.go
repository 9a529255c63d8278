// Package patherr shortens file errors for messages that already name the file.
package patherr

import (
	"errors"
	"io/fs"
)

// Cause returns the error inside a [fs.PathError], without the operation and
// the path. It returns other errors unchanged.
func Cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
