package pygent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/workspace"
)

// Reasons for which a leftover is not removed without being asked for.
const (
	whyUnproved  = "it does not prove that this user's pygent made it: it is another user's or machine's, an earlier version's, or carries copied labels"
	whyUnseen    = "its process cannot be seen from here, and may be alive"
	whyRuns      = "it runs, so that something may be connected to it"
	whyWorkspace = "it holds a workspace that was not brought back"
)

// judge tells what is to become of something of a kind, by its labels. It is not
// left over while its owner lives.
func judge(self *owner.Self, kind, name string, labels map[string]string) (l Leftover, left bool) {
	l = Leftover{Kind: kind, Name: name, Owner: labels[owner.LabelOwner]}
	state := self.StateOf(l.Owner)
	proved := self.Proved(kind, name, labels)
	switch {
	case !proved:
		l.Why = whyUnproved
	case state != owner.Dead:
		l.Why = whyUnseen
	case labels[owner.LabelHolds] != string(owner.HoldsNothing) && !self.Saved(name):
		l.Why = whyWorkspace
	}
	l.Ours = proved && state == owner.Dead
	l.Sure = l.Why == ""
	return l, state != owner.Alive
}

// everythingLeft lists what is or may be left on an engine, by anybody.
func everythingLeft(ctx context.Context, engine *client.Client, self *owner.Self) ([]Leftover, error) {
	return leftOnEngine(ctx, engine, self, filters.Arg("label", owner.LabelOwner))
}

// leftOnEngine lists the containers and volumes that an engine's filter chooses,
// and whose owners do not live. Containers come first: a volume in use cannot be
// removed.
func leftOnEngine(ctx context.Context, engine *client.Client, self *owner.Self, which ...filters.KeyValuePair) ([]Leftover, error) {
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
	var found []Leftover
	for _, c := range containers {
		if l, left := judgeContainer(self, c); left {
			found = append(found, l)
		}
	}
	for _, v := range volumes.Volumes {
		if l, left := judge(self, leftVolume, v.Name, v.Labels); left {
			l.Created, _ = time.Parse(time.RFC3339, v.CreatedAt) // zero where the engine does not tell
			found = append(found, l)
		}
	}
	return found, nil
}

// unconnected are the states of a container to which nobody is connected: the guest
// of one that runs would have ended it, had its connection ended.
var unconnected = []container.ContainerState{container.StateCreated, container.StateExited, container.StateDead}

func judgeContainer(self *owner.Self, c container.Summary) (l Leftover, left bool) {
	name := strings.TrimPrefix(append(c.Names, c.ID)[0], "/")
	l, left = judge(self, leftContainer, name, c.Labels)
	l.id, l.Created = c.ID, time.Unix(c.Created, 0)
	if l.Sure && !slices.Contains(unconnected, c.State) {
		l.Sure, l.Why = false, whyRuns
	}
	return l, left
}

// directoriesLeft lists the temporary workspaces of owners that do not live.
func directoriesLeft(self *owner.Self) []Leftover {
	var found []Leftover
	for _, t := range workspace.FindTemps() {
		state := self.StateOf(t.Owner)
		if state == owner.Alive {
			continue
		}
		l := Leftover{Kind: leftDirectory, Name: t.Path, Owner: t.Owner, Created: t.Made, Ours: t.Proved && state == owner.Dead}
		switch {
		case !t.Proved:
			l.Why = whyUnproved
		case state != owner.Dead:
			l.Why = whyUnseen
		}
		l.Sure = l.Why == ""
		found = append(found, l)
	}
	return found
}

// self is the owner of what a runtime makes.
func (o *runtimeOptions) self() *owner.Self {
	if o.ownedBy != nil {
		return o.ownedBy
	}
	return owner.Here()
}

// A process sweeps once: what is left over then is all there is.
var (
	sweptEngines sync.Map // by address
	sweptHere    atomic.Bool
)

// sweepTime bounds how long a sweep of an engine goes on.
const sweepTime = time.Minute

// sweepEngine removes what is surely left over on the engine, while the first
// container starts.
func sweepEngine(ctx context.Context, engine *client.Client, o *runtimeOptions) {
	if o.keepLeftovers {
		return
	}
	if _, swept := sweptEngines.LoadOrStore(engine.DaemonHost(), true); !swept {
		sweep(ctx, engine, o)
	}
}

// sweep asks the engine for nothing but what carries our installation's id.
// Errors are no concern of the runtime that sweeps: the next process tries again,
// and Leftovers still lists what is there.
func sweep(ctx context.Context, engine *client.Client, o *runtimeOptions) {
	if err := o.self().Err(); err != nil {
		o.logger.Debug("nothing is removed that earlier processes left on the engine", "why", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	found, err := leftOnEngine(ctx, engine, o.self(), filters.Arg("label", owner.LabelInstallation+"="+o.self().Installation()))
	if err != nil {
		o.logger.Debug("look for what earlier processes left on the engine", "error", err)
	}
	for _, l := range found {
		if l.Sure && ctx.Err() == nil {
			o.logger.Debug("remove what an earlier process left", "what", l.String(), "error", l.remove(ctx, engine, o.self()))
		}
	}
	giveBackAbandoned(ctx, engine, o)
}

// sweepDirectories removes the workspaces that are surely left over here.
func sweepDirectories(o *runtimeOptions) {
	if o.keepLeftovers || sweptHere.Swap(true) {
		return
	}
	if err := o.self().Err(); err != nil {
		o.logger.Debug("nothing is removed that earlier processes left on this machine", "why", err)
		return
	}
	for _, l := range directoriesLeft(o.self()) {
		if l.Sure {
			o.logger.Debug("remove what an earlier process left", "what", l.String(), "error", workspace.RemoveFound(l.Name))
		}
	}
}
