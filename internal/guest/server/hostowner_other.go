//go:build unix && !linux

package server

import (
	"os"

	"github.com/x/pygent/internal/guest/wire"
)

// ownerOnHost always fails here: the guests that need it run on Linux.
func ownerOnHost(*os.Root, wire.HostOwner) (*owner, bool) { return nil, false }
