//go:build !unix

package tree

import "os"

// hold does nothing: directories cannot be locked on this system.
func hold(*os.Root, string) (*os.File, error) { return nil, nil }

// take fails, because it is unknown whether a stage is in use.
func take(*os.Root, string) (*os.File, bool) { return nil, false }
