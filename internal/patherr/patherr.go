// Package patherr shortens errors of files for messages that name the file
// themselves.
package patherr

import (
	"errors"
	"io/fs"
)

// Cause returns what went wrong with a file, without the operation and the path
// that a [fs.PathError] adds. Other errors it returns as they are.
func Cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
