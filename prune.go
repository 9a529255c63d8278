package pygent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/workspace"
)

// Leftover is something that a runtime of a process which is no more has left
// behind: the engine or the machine went down with it.
type Leftover struct {
	Kind  string // "container", "volume" or "directory"
	Name  string // a path, for a directory
	Owner string // host, boot, namespace, process id and start time of the process
	// Sure tells that the owner is dead. Otherwise it cannot be seen from here,
	// on another machine say, and may be alive.
	Sure bool
}

// String describes the leftover in one line.
func (l Leftover) String() string {
	s := l.Kind + " " + l.Name
	if !l.Sure {
		s += " (of a process that cannot be seen from here: " + l.Owner + ")"
	}
	return s
}

// Leftovers lists what dead processes left on the engine and on this machine.
// It finds its own by label and by a file in them, and looks at nothing else.
// Without an engine it lists what is on this machine; with [DockerRequired]
// that is an error.
func Leftovers(ctx context.Context, opts ...RuntimeOption) ([]Leftover, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	found := staleDirectories()
	if o.docker == DockerNever {
		return found, nil
	}
	engine, err := connectEngine(ctx, o.dockerHost)
	if err != nil {
		if o.docker == DockerRequired {
			return nil, err
		}
		return found, nil
	}
	defer engine.Close()
	onEngine, err := staleOnEngine(ctx, engine)
	return append(onEngine, found...), err
}

// Prune removes leftovers, which [Leftovers] listed. It goes on after an error.
func Prune(ctx context.Context, leftovers []Leftover, opts ...RuntimeOption) error {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return err
	}
	var engine *client.Client
	defer func() {
		if engine != nil {
			engine.Close()
		}
	}()
	var failed error
	for _, l := range leftovers {
		if l.Kind != leftDirectory && engine == nil {
			if engine, err = connectEngine(ctx, o.dockerHost); err != nil {
				return errors.Join(failed, err)
			}
		}
		if err := l.remove(ctx, engine); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove %s %s: %w", l.Kind, l.Name, err))
		}
	}
	return failed
}

// The kinds of leftovers.
const (
	leftContainer = "container"
	leftVolume    = "volume"
	leftDirectory = "directory"
)

func (l Leftover) remove(ctx context.Context, engine *client.Client) error {
	switch l.Kind {
	case leftContainer:
		return removeContainer(ctx, engine, l.Name)
	case leftVolume:
		err := engine.VolumeRemove(ctx, l.Name, true)
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	case leftDirectory:
		return workspace.RemoveStale(l.Name)
	}
	return fmt.Errorf("unknown kind %q", l.Kind)
}

// staleOnEngine lists the containers and volumes of owners that do not live.
// Containers come first: a volume in use cannot be removed.
func staleOnEngine(ctx context.Context, engine *client.Client) ([]Leftover, error) {
	ours := filters.NewArgs(filters.Arg("label", labelOwner))
	containers, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	volumes, err := engine.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var found []Leftover
	add := func(kind, name string, labels map[string]string) {
		l := Leftover{Kind: kind, Name: name, Owner: labels[labelOwner]}
		state := owner.StateOf(l.Owner)
		if l.Sure = state == owner.Dead; state != owner.Alive {
			found = append(found, l)
		}
	}
	for _, c := range containers {
		add(leftContainer, strings.TrimPrefix(append(c.Names, c.ID)[0], "/"), c.Labels)
	}
	for _, v := range volumes.Volumes {
		add(leftVolume, v.Name, v.Labels)
	}
	return found, nil
}

// staleDirectories lists the temporary workspaces of owners that do not live.
func staleDirectories() []Leftover {
	var found []Leftover
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), workspace.TempPattern)) // the pattern is well formed
	for _, dir := range dirs {
		name, ok := workspace.OwnerOf(dir)
		if !ok {
			if workspace.Abandoned(dir) {
				found = append(found, Leftover{Kind: leftDirectory, Name: dir, Sure: true})
			}
			continue
		}
		if state := owner.StateOf(name); state != owner.Alive {
			found = append(found, Leftover{Kind: leftDirectory, Name: dir, Owner: name, Sure: state == owner.Dead})
		}
	}
	return found
}

// A process sweeps once: what is left over then is all there is.
var (
	sweptEngine atomic.Bool
	sweptHere   atomic.Bool
)

// sweepEngine removes what is surely left over on the engine, while the first
// container starts. Errors are no concern of the runtime that sweeps: the next
// process tries again, and Leftovers still lists what is there.
func sweepEngine(ctx context.Context, engine *client.Client) {
	if sweptEngine.Swap(true) {
		return
	}
	found, _ := staleOnEngine(ctx, engine)
	for _, l := range found {
		if l.Sure && ctx.Err() == nil {
			_ = l.remove(ctx, engine)
		}
	}
}

// sweepDirectories removes the workspaces that are surely left over here.
func sweepDirectories() {
	if sweptHere.Swap(true) {
		return
	}
	for _, l := range staleDirectories() {
		if l.Sure {
			_ = workspace.RemoveStale(l.Name)
		}
	}
}
