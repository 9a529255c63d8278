//go:build !linux

package guest

import (
	"context"

	"github.com/x/pygent/internal/guest/confine"
)

// Confinement tells how far a local guest can be confined here.
func Confinement(context.Context) confine.Support {
	return confine.Support{Why: "only Linux can confine commands"}
}

// NewPolicy returns a policy that allows nothing but a directory for temporary
// files.
func NewPolicy(level confine.Level, temp string) *confine.Policy {
	return &confine.Policy{Level: level, Temp: temp}
}
