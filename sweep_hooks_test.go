package pygent

import (
	"context"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/owner"
)

// WithTestOwner makes a runtime belong to another process, perhaps one on
// another machine.
func WithTestOwner(self *owner.Self) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.ownedBy = self }}
}

// SweepEngine sweeps an engine as the first runtime of a process does.
func SweepEngine(ctx context.Context, engine *client.Client, self *owner.Self, opts ...RuntimeOption) {
	o, err := newRuntimeOptions(append(opts, WithTestOwner(self)))
	if err != nil {
		panic(err)
	}
	docker.Sweep(ctx, engine, o.dockerConfig())
}
