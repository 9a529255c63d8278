//go:build !linux && !darwin

package exchange

import (
	"errors"
	"os"
)

// Exchange is not known here.
func Exchange(*os.Root, string, string) error { return errors.ErrUnsupported }

// SyncAll does nothing here.
func SyncAll(*os.Root) error { return nil }
