//go:build !unix

package tree

import "os"

// hold holds nothing: directories have no locks here.
func hold(*os.Root, string) (*os.File, error) { return nil, nil }

// take takes nothing, as it cannot be told what is held.
func take(*os.Root, string) (*os.File, bool) { return nil, false }
