package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/workspace"
)

// Errors of what Remove leaves alone.
var (
	errNotMade  = errors.New("pygent did not make it")
	errUsedHere = errors.New("a living process uses it")
)

// Remove removes a leftover, also one that is not sure: the caller has chosen it. A
// container that is not sure is removed even while it runs. What pygent did not
// make, or a living process uses, stays and is an error. A directory needs no
// engine.
func Remove(ctx context.Context, engine *client.Client, self *owner.Self, l sandbox.Leftover) error {
	switch l.Kind {
	case owner.Container:
		return removeLeftContainer(ctx, engine, self, l)
	case owner.Volume:
		return removeLeftVolume(ctx, engine, self, l)
	case sandbox.Directory:
		return workspace.RemoveFound(l.Name)
	case sandbox.File:
		return sandbox.RemoveFile(l.Name)
	}
	return fmt.Errorf("unknown kind %q", l.Kind)
}

func removeLeftContainer(ctx context.Context, engine *client.Client, self *owner.Self, l sandbox.Leftover) error {
	id := cmp.Or(l.ID, l.Name)
	info, err := engine.ContainerInspect(ctx, id)
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
		return removeStopped(ctx, engine, id)
	default:
		return removeContainer(ctx, engine, id)
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

// removeLeftVolume removes a volume that no container uses: the engine refuses
// others.
func removeLeftVolume(ctx context.Context, engine *client.Client, self *owner.Self, l sandbox.Leftover) error {
	info, err := engine.VolumeInspect(ctx, l.Name)
	if err == nil {
		err = removable(self, info.Labels)
	}
	if err == nil {
		err = removeVolume(ctx, engine, l.Name, false)
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
