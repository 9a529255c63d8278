// Package patherr shortens file errors for messages that already name the file.
package patherr

import (
	"errors"
	"io/fs"
	"os"
)

// Cause returns the error inside a [fs.PathError] or an [os.LinkError], without the
// operation and the paths. It returns other errors unchanged.
func Cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		return link.Err
	}
	return err
}
