package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/tempname"
)

// writeTime is how long the first write may take.
const writeTime = 10 * time.Second

// startWriting starts a container whose commands can write the workspace. An image may
// have a user of its own, to whom the workspace does not belong: where nobody has chosen
// that user, commands then run as the owner of the workspace. It begins no container but
// by start, and ends the one that is not to be used.
func (c *commander) startWriting(ctx context.Context, p place, start func() (*Container, error)) (*Container, error) {
	box, err := start()
	if c.cannotReach(err) {
		return c.startReaching(start, err)
	}
	if err != nil || !c.keep || p.volume != "" || box.canWrite(ctx, p.dir, c.may("DAC_OVERRIDE")) {
		return box, err // any user can write a temporary workspace, and a volume
	}
	owner, known := box.ownerOfWorkspace()
	if c.spec.config.User != "" || !known {
		if !known {
			owner = "UID:GID"
		}
		c.learn(fmt.Sprintf("Commands cannot write the workspace: they run as %s, to whom it does not belong. --user %s runs them as its owner; or change its mode", box.user(), owner))
		return box, nil
	}
	was := box.user()
	if err := box.discard(); err != nil {
		return nil, err
	}
	c.runAs(owner)
	if box, err = start(); err != nil {
		return nil, err
	}
	if box.canWrite(ctx, p.dir, c.may("DAC_OVERRIDE")) {
		c.learn(fmt.Sprintf("Commands run as the workspace's owner, %s, since %s, whom the image names, cannot write it", owner, was))
	} else {
		c.learn("Commands cannot write the workspace, not even as its owner, " + owner + ": it may be mounted to be read only")
	}
	return box, nil
}

// runAs has commands run as the workspace's owner.
func (c *commander) runAs(owner string) {
	c.spec.config.User = owner
	c.user.Store(&owner)
	if owner != "0:0" {
		c.spec.config.Env = append(c.spec.config.Env[:len(c.spec.config.Env):len(c.spec.config.Env)], "HOME=/tmp") // nothing else may be theirs
	}
}

// cannotReach reports whether a container did not start because its user may not pass
// through the directories above the workspace, such as /root, which images keep to root.
// Commands begin there only where git needs it.
func (c *commander) cannotReach(err error) bool {
	return err != nil && c.spec.view.begin != Workspace && strings.Contains(err.Error(), "open the workspace: open "+c.spec.view.begin+": permission denied")
}

// startReaching starts a container as the workspace's owner after one that did not reach
// the workspace, unless somebody has chosen its user.
func (c *commander) startReaching(start func() (*Container, error), err error) (box *Container, _ error) {
	if o := c.spec.hostOwner.Owner; c.spec.config.User == "" && o.Known {
		c.runAs(fmt.Sprintf("%d:%d", o.UID, o.GID))
		if box, err = start(); err == nil {
			c.learn("Commands run as the workspace's owner, " + c.spec.config.User + ", since the user whom the image names cannot reach it")
		}
	}
	if c.cannotReach(err) {
		err = fmt.Errorf("%w: the container's user cannot reach the workspace at its path on this machine, where git needs it; choose another one with --user, or --repository none, with which git does not work", err)
	}
	return box, err
}

// user names whom commands run as.
func (b *Container) user() string {
	if g, ok := b.commands.(*boxedGuest); ok {
		return fmt.Sprintf("user %d", g.Client.Info().UID)
	}
	return "user " + cmp.Or(b.spec.config.User, "of the image")
}

// ownerOfWorkspace is the workspace's owner, as the container numbers users.
func (b *Container) ownerOfWorkspace() (user string, known bool) {
	o := b.spec.hostOwner.Owner
	if g, ok := b.commands.(*boxedGuest); ok {
		o = g.Client.Info().Owner
	}
	return fmt.Sprintf("%d:%d", o.UID, o.GID), o.Known && o.UID != nobody
}

// canWrite tries one write to the workspace, which this process sees in dir. Root can
// write everything if it has the right for it. What cannot be tried is taken for
// possible: a command tells more.
func (b *Container) canWrite(ctx context.Context, dir string, rootCan bool) bool {
	if g, ok := b.commands.(*boxedGuest); ok && rootCan && g.Client.Info().UID == 0 {
		return true
	}
	name := tempname.Prefix + rand.Text()
	defer os.Remove(filepath.Join(dir, name)) // the image may have no program for it
	res, err := b.commands.Run(ctx, sandbox.Command{Script: ": >" + name, Dir: ".", Timeout: writeTime, MaxOutput: 1 << 10})
	if err != nil || res.TimedOut || res.ExitCode == 0 {
		return true
	}
	_, err = os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, os.ErrNotExist)
}
