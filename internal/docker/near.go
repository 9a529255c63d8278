package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

var _ sandbox.Near = (*files)(nil)

// CopyIn implements [sandbox.Near].
func (d *files) CopyIn(ctx context.Context, src *workspace.Source, dir, as string) (done bool, err error) {
	return d.here(func(o tree.ExtractOptions) error { return d.tree.CopyIn(ctx, src, dir, as, o) })
}

// CopyOut implements [sandbox.Near].
func (d *files) CopyOut(ctx context.Context, name string, to *workspace.Destination, limits tree.Limits) (done bool, err error) {
	return d.here(func(tree.ExtractOptions) error { return d.tree.CopyOut(ctx, name, to, limits) })
}

// here lets this process copy, if the files are on this machine. What it may not read
// or write there is left to the guest, which has more rights.
func (d *files) here(do func(tree.ExtractOptions) error) (done bool, err error) {
	d.mu.RLock()
	if !d.inside {
		defer d.mu.RUnlock() // the files must not move meanwhile
		return true, do(tree.ExtractOptions{})
	}
	near := d.near
	d.mu.RUnlock()
	if near == nil {
		return false, nil
	}
	err = do(tree.ExtractOptions{Open: true, Owner: near}) // as the guest does it
	return !errors.Is(err, fs.ErrPermission), err
}

// nearOwner returns the owner of a workspace that a guest has as well as this process,
// if it makes no difference which of them copies files: they run on one kernel, which
// numbers users for both alike, and in the container nothing lies over the workspace.
// What this process makes there is as good as what the guest makes. In every other
// case it returns nil.
func (c *commander) nearOwner(client *guest.Client) *tree.Owner {
	info := client.Info()
	if !sameKernel(info.Boot) || c.mayDiffer() {
		return nil
	}
	me := os.Geteuid()
	if info.UID != 0 && info.UID != me {
		return nil // commands could not change what is ours
	}
	uid, gid, ok := c.files.tree.Owner()
	if c.claim != nil {
		uid, gid = c.claim.UID, c.claim.GID
	}
	numbered := guest.Owner{Known: true, UID: int64(uid), GID: int64(gid)}
	if !ok || info.Owner != numbered || uid == nobody || me != 0 && (me != uid || os.Getegid() != gid) {
		return nil
	}
	if uid != info.UID && !(c.may("DAC_OVERRIDE") && c.may("FOWNER")) {
		return nil // the same
	}
	return &tree.Owner{UID: uid, GID: gid}
}

// sameKernel reports whether a guest runs on this machine's kernel, by what that says of
// its boot. A virtual machine may share files with this one, and have a kernel of the
// same release.
func sameKernel(boot string) bool { return boot != "" && boot == owner.ThisPlace().Boot }

// nobody is the number by which a user namespace shows all users that it has not.
const nobody = 65534

// mayDiffer reports whether something else may be mounted in the workspace than this
// machine has there, or commands may make devices in it, which only the guest opens
// without harm.
func (c *commander) mayDiffer() bool {
	for _, m := range c.config.Mounts {
		if at := path.Clean(m.Target); at == Workspace || strings.HasPrefix(at, Workspace+"/") {
			return true
		}
	}
	return c.may("SYS_ADMIN") || c.may("MKNOD")
}

// may reports whether the containers have a capability.
func (c *commander) may(capability string) bool {
	return slices.ContainsFunc(c.config.Capabilities, func(name string) bool {
		name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
		return name == "ALL" || name == capability
	})
}
