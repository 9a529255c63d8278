package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
)

// Reasons for which a leftover is not removed without being asked for, besides
// those of package sandbox.
const (
	whyRuns      = "it runs, so that something may be connected to it"
	whyWorkspace = "it holds a workspace that was not brought back"
)

// judge decides by its labels whether something is left over, and whether it may
// be removed without being asked for. Nothing is left over while its owner lives.
func judge(self *owner.Self, kind, name string, labels map[string]string) (l sandbox.Leftover, left bool) {
	l = sandbox.Leftover{Kind: kind, Name: name, Owner: labels[owner.LabelOwner]}
	state := self.StateOf(l.Owner)
	proved := self.Proved(kind, name, labels)
	switch {
	case !proved:
		l.Why = sandbox.NotProved
	case state != owner.Dead:
		l.Why = sandbox.NotSeen
	case labels[owner.LabelHolds] != string(owner.HoldsNothing) && !self.Saved(name):
		l.Why = whyWorkspace
	}
	l.Ours = proved && state == owner.Dead
	l.Sure = l.Why == ""
	return l, state != owner.Alive
}

// Leftovers lists what is or may be left on an engine, by anybody, and says how a
// workspace is copied out of its volume.
func Leftovers(ctx context.Context, engine *Engine, c Config) ([]sandbox.Leftover, error) {
	found, err := leftOnEngine(ctx, engine, c.Self(), filters.Arg("label", owner.LabelOwner))
	for i, l := range found {
		if l.Why == whyWorkspace {
			found[i].Why += "; what copies it here is: " + owner.Rescue(c.Host, c.Image, l.Name)
		}
	}
	return found, err
}

// leftOnEngine lists the containers and volumes that an engine's filter chooses,
// and whose owners do not live. Containers come first: a volume in use cannot be
// removed.
func leftOnEngine(ctx context.Context, engine *client.Client, self *owner.Self, which ...filters.KeyValuePair) ([]sandbox.Leftover, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	containers, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(which...)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", engineWords(ctx, err))
	}
	volumes, err := engine.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(which...)})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", engineWords(ctx, err))
	}
	var found []sandbox.Leftover
	for _, c := range containers {
		if l, left := judgeContainer(self, c); left {
			found = append(found, l)
		}
	}
	for _, v := range volumes.Volumes {
		if l, left := judge(self, owner.Volume, v.Name, v.Labels); left {
			l.Created, _ = time.Parse(time.RFC3339, v.CreatedAt) // zero where the engine does not tell
			found = append(found, l)
		}
	}
	return found, nil
}

// unconnected are the states of a container to which nobody is connected: the guest
// of one that runs would have ended it, had its connection ended.
var unconnected = []container.ContainerState{container.StateCreated, container.StateExited, container.StateDead}

func judgeContainer(self *owner.Self, c container.Summary) (l sandbox.Leftover, left bool) {
	name := strings.TrimPrefix(append(c.Names, c.ID)[0], "/")
	l, left = judge(self, owner.Container, name, c.Labels)
	l.ID, l.Created = c.ID, time.Unix(c.Created, 0)
	if l.Sure && !slices.Contains(unconnected, c.State) {
		l.Sure, l.Why = false, whyRuns
	}
	return l, left
}

// Prune removes leftovers that somebody has chosen, as [Remove] does. It connects
// to the engine for the first that is there, and goes on after an error.
func Prune(ctx context.Context, self *owner.Self, chosen []sandbox.Leftover, connect func(context.Context) (*Engine, error)) error {
	var engine *client.Client
	var failed error
	for _, l := range chosen {
		if l.Kind != sandbox.Directory && l.Kind != sandbox.File && engine == nil {
			var err error
			if engine, err = connect(ctx); err != nil {
				return errors.Join(failed, err)
			}
			defer engine.Close() // once: the next ones use it too
		}
		if err := Remove(ctx, engine, self, l); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove %s %s: %w", l.Kind, owner.Printable(l.Name), err))
		}
	}
	return failed
}

// sweptEngines are the engines, by address, that this process has swept. Once is
// enough: what it leaves itself is not left over while it lives.
var sweptEngines sync.Map

// sweepTime bounds how long a sweep of an engine goes on.
const sweepTime = time.Minute

// sweepEngine sweeps an engine, unless this process has, while the first container
// starts.
func sweepEngine(ctx context.Context, engine *client.Client, c Config) {
	if c.KeepLeftovers {
		return
	}
	if _, swept := sweptEngines.LoadOrStore(engine.DaemonHost(), true); !swept {
		Sweep(ctx, engine, c)
	}
}

// Sweep removes what is surely left over on an engine. It asks the engine for
// nothing but what carries our installation's id. Errors are no concern of the
// sandbox that sweeps: the next process tries again, and [Leftovers] still lists
// what is there.
func Sweep(ctx context.Context, engine *Engine, c Config) {
	self := c.Self()
	if err := self.Err(); err != nil {
		c.Logger.Debug("nothing is removed that earlier processes left on the engine", "why", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	found, err := leftOnEngine(ctx, engine, self, filters.Arg("label", owner.LabelInstallation+"="+self.Installation()))
	if err != nil {
		c.Logger.Debug("look for what earlier processes left on the engine", "error", err)
	}
	for _, l := range found {
		if l.Sure && ctx.Err() == nil {
			c.Logger.Debug("remove what an earlier process left", "what", l.String(), "error", Remove(ctx, engine, self, l))
		}
	}
	giveBackAbandoned(ctx, engine, c)
}
