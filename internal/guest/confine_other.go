//go:build !linux

package guest

import (
	"context"

	"github.com/x/pygent/internal/guest/confine"
)

// Confinement returns how far a local guest can be confined on this machine.
func Confinement(context.Context, MakeTemp) confine.Support {
	return confine.Support{Why: "only Linux can confine commands"}
}

// NewPolicy returns a policy that allows only temp, a directory for temporary
// files.
func NewPolicy(level confine.Level, temp string) *confine.Policy {
	return &confine.Policy{Level: level, Temp: temp}
}
