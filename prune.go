package pygent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
)

// Leftover is something that says it was made by a runtime, and whose process
// has ended or cannot be seen from here.
type Leftover struct {
	Kind    string // "container", "volume" or "directory"
	Name    string // a path, for a directory
	Owner   string // host, machine, boot, namespace, process id and start time of the process
	Created time.Time

	// Ours tells that this user's pygent made it on this machine, which it
	// proves, in a process that has ended.
	Ours bool
	// Sure tells besides that nothing uses it and nothing is lost with it. This
	// is what a runtime removes by itself; see [WithSweep].
	Sure bool
	// Why says why it is not removed by itself. It is empty when Sure.
	Why string

	id string // of a container: its name may become another's
}

// String describes the leftover in one line, which shows whatever cannot be
// printed as an escape.
func (l Leftover) String() string { return l.found().String() }

// found is the leftover as it was found.
func (l Leftover) found() sandbox.Leftover {
	return sandbox.Leftover{
		Kind: l.Kind, Name: l.Name, ID: l.id, Owner: l.Owner, Created: l.Created,
		Ours: l.Ours, Sure: l.Sure, Why: l.Why,
	}
}

func leftoversOf(found []sandbox.Leftover) (all []Leftover) {
	for _, l := range found {
		all = append(all, Leftover{
			Kind: l.Kind, Name: l.Name, id: l.ID, Owner: l.Owner, Created: l.Created,
			Ours: l.Ours, Sure: l.Sure, Why: l.Why,
		})
	}
	return all
}

// Leftovers lists what dead processes left on the engine and on this machine,
// and what may be that. It finds things by label and by a file in them, and
// looks at nothing else. What others or earlier versions made, or what merely
// carries our labels, is among them and not Ours. Without an engine it lists
// what is on this machine; with [DockerRequired] that is an error.
func Leftovers(ctx context.Context, opts ...RuntimeOption) ([]Leftover, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	found := leftoversOf(sandbox.DirectoriesLeft(o.sandboxConfig().Self()))
	if o.docker == DockerNever {
		return found, nil
	}
	engine, err := docker.Connect(ctx, o.dockerHost, o.writableDirs(true, true)...)
	if err != nil {
		if o.docker == DockerRequired {
			return nil, err
		}
		return found, nil
	}
	defer engine.Close()
	onEngine, err := docker.Leftovers(ctx, engine, o.dockerConfig())
	return append(leftoversOf(onEngine), found...), err
}

// Prune removes leftovers, which [Leftovers] listed, also those that are not
// Sure: the caller has chosen them. A container that is not Sure is removed even
// while it runs. What pygent did not make, or a living process uses, stays and is
// an error, after which Prune goes on.
func Prune(ctx context.Context, leftovers []Leftover, opts ...RuntimeOption) error {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return err
	}
	self := o.sandboxConfig().Self()
	var engine *client.Client
	defer func() {
		if engine != nil {
			engine.Close()
		}
	}()
	var failed error
	for _, l := range leftovers {
		if l.Kind != sandbox.Directory && engine == nil {
			if engine, err = docker.Connect(ctx, o.dockerHost, o.writableDirs(true, true)...); err != nil {
				return errors.Join(failed, err)
			}
		}
		if err := docker.Remove(ctx, engine, self, l.found()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove %s %s: %w", l.Kind, owner.Printable(l.Name), err))
		}
	}
	return failed
}
