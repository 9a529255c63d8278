package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/workspace"
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
func (l Leftover) String() string {
	parts := []string{l.Kind + " " + owner.Printable(l.Name)}
	if !l.Created.IsZero() {
		parts = append(parts, strings.ToLower(units.HumanDuration(time.Since(l.Created)))+" old")
	}
	parts = append(parts, "of "+owner.Describe(l.Owner))
	s := strings.Join(parts, ", ")
	if l.Why != "" {
		s += ": " + l.Why
	}
	return s
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
	found := directoriesLeft(o.self())
	if o.docker == DockerNever {
		return found, nil
	}
	engine, err := connectEngine(ctx, o.dockerHost, o.writableDirs()...)
	if err != nil {
		if o.docker == DockerRequired {
			return nil, err
		}
		return found, nil
	}
	defer engine.Close()
	onEngine, err := everythingLeft(ctx, engine, o.self())
	for i, l := range onEngine {
		if l.Why == whyWorkspace {
			onEngine[i].Why += "; what copies it here is: " + owner.Rescue(o.dockerHost, o.image, l.Name)
		}
	}
	return append(onEngine, found...), err
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
	var engine *client.Client
	defer func() {
		if engine != nil {
			engine.Close()
		}
	}()
	var failed error
	for _, l := range leftovers {
		if l.Kind != leftDirectory && engine == nil {
			if engine, err = connectEngine(ctx, o.dockerHost, o.writableDirs()...); err != nil {
				return errors.Join(failed, err)
			}
		}
		if err := l.remove(ctx, engine, o.self()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove %s %s: %w", l.Kind, owner.Printable(l.Name), err))
		}
	}
	return failed
}

// The kinds of leftovers.
const (
	leftContainer = owner.Container
	leftVolume    = owner.Volume
	leftDirectory = "directory"
)

// Errors of what Prune does not remove.
var (
	errNotMade  = errors.New("pygent did not make it")
	errUsedHere = errors.New("a living process uses it")
)

func (l Leftover) remove(ctx context.Context, engine *client.Client, self *owner.Self) error {
	switch l.Kind {
	case leftContainer:
		return l.removeContainer(ctx, engine, self)
	case leftVolume:
		return l.removeVolume(ctx, engine, self)
	case leftDirectory:
		return workspace.RemoveFound(l.Name)
	}
	return fmt.Errorf("unknown kind %q", l.Kind)
}

func (l Leftover) removeContainer(ctx context.Context, engine *client.Client, self *owner.Self) error {
	if l.id == "" {
		l.id = l.Name
	}
	info, err := engine.ContainerInspect(ctx, l.id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err == nil && info.Config != nil {
		err = removable(self, info.Config.Labels)
	}
	switch {
	case err != nil:
		return err
	case l.Sure:
		return removeStopped(ctx, engine, l.id)
	default:
		return removeContainer(ctx, engine, l.id)
	}
}

// removeStopped removes a container that does not run: the engine refuses
// others, also one that somebody has started this moment.
func removeStopped(ctx context.Context, engine *client.Client, id string) error {
	err := engine.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// removeVolume removes a volume that no container uses: the engine refuses others.
func (l Leftover) removeVolume(ctx context.Context, engine *client.Client, self *owner.Self) error {
	info, err := engine.VolumeInspect(ctx, l.Name)
	if err == nil {
		err = removable(self, info.Labels)
	}
	if err == nil {
		err = engine.VolumeRemove(ctx, l.Name, false)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	self.Forget(l.Name)
	return nil
}

// removable refuses what does not even say that pygent made it, and what is in
// use.
func removable(self *owner.Self, labels map[string]string) error {
	by := labels[owner.LabelOwner]
	switch {
	case by == "":
		return errNotMade
	case self.StateOf(by) == owner.Alive:
		return errUsedHere
	}
	return nil
}
