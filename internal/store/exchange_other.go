//go:build !linux && !darwin

package store

import (
	"errors"
	"os"
)

// exchange is not known here.
func exchange(*os.Root, string, string) error { return errors.ErrUnsupported }

// syncAll does nothing here.
func syncAll(*os.Root) error { return nil }
