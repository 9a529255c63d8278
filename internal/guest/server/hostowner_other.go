//go:build unix && !linux

package server

import (
	"os"

	"github.com/x/pygent/internal/guest/wire"
)

// ownerOnHost knows nothing: containers run Linux.
func ownerOnHost(*os.Root, wire.HostOwner) (*owner, bool) { return nil, false }
