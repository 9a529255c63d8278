package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
)

// claimWorkspace takes a workspace that is to be kept, before a container may
// change whom it belongs to. One whose last process was killed may be somebody
// else's by now, and is given back first: this user might not even enter it.
func claimWorkspace(ctx context.Context, engine *client.Client, c Config) *owner.Claim {
	if c.Workspace == "" {
		return nil
	}
	_ = os.MkdirAll(c.Workspace, 0o777) // who opens it tells of the error
	claim, err := c.Self().Claim(c.Workspace)
	if claim == nil {
		return nil
	}
	if err != nil {
		c.Logger.Warn("if this process is killed, the next one does not know whom the workspace belongs to", "why", err)
	}
	if claim.Lost() && claim.GiveBack() != nil {
		ctx, cancel := context.WithTimeout(ctx, cleanupTime)
		defer cancel()
		if err := giveBack(ctx, engine, c, claim); err != nil {
			c.Logger.Warn("the workspace's directory was given away, and could not be given back", "error", err)
		}
	}
	return claim
}

// hostOwner is whom a claimed workspace belongs to, as a guest is told. Where this
// process numbers users in its own way, a guest is told only since when it may have changed.
func hostOwner(c *owner.Claim) guest.HostOwner {
	if c == nil {
		return guest.HostOwner{}
	}
	h := guest.HostOwner{Boot: owner.ThisPlace().Boot, Since: c.Since.UnixNano()}
	if plainUsers() {
		h.Owner, h.Sure = guest.Owner{Known: true, UID: int64(c.UID), GID: int64(c.GID)}, !c.Lost()
		h.Dev, h.Ino = int64(c.Dev), int64(c.Ino)
	}
	return h
}

// plainUsers reports whether this process numbers users as its kernel does.
func plainUsers() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, count int64
	_, scanned := fmt.Sscan(string(data), &inside, &outside, &count)
	return err == nil && scanned == nil && inside == 0 && outside == 0 && count == 1<<32-1
}

// endClaim ends the claim of the workspace. It counts on for the next process
// unless the files have been given back, and nobody was left then who could have
// taken them again.
func (c *commander) endClaim(given error, alone bool) error {
	if !c.proved { // no container has seen the directory
		return c.claim.Release(c.claim.Fresh())
	}
	return c.claim.Release(given == nil && (alone || c.claim.Fresh()))
}

// lingerTime is how long the containers of processes that were killed are waited
// for. They end as soon as they see that.
const lingerTime = 5 * time.Second

// deadAreQuiet waits until no container runs any more whose process was killed:
// it could give files away even now. It reports whether none does.
func deadAreQuiet(ctx context.Context, engine *client.Client, self *owner.Self) bool {
	ctx, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	for {
		found, err := leftOnEngine(ctx, engine, self, filters.Arg("label", owner.LabelInstallation+"="+self.Installation()))
		if err != nil {
			return false
		}
		if !slices.ContainsFunc(found, func(l sandbox.Leftover) bool { return l.Ours && l.Why == whyRuns }) {
			return true
		}
		select {
		case <-time.After(lingerTime / 50):
		case <-ctx.Done():
			return false
		}
	}
}

// rightsToGive are what a container needs that gives files to their owner.
var rightsToGive = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}

// giveBack gives a workspace to its owner from a container that sees nothing else.
func giveBack(ctx context.Context, engine *client.Client, c Config, claim *owner.Claim) error {
	if c.SharedFiles != nil && !*c.SharedFiles || !sharesFiles(engine) {
		return errNotShared
	}
	info, err := inspectImage(ctx, engine, c.Image)
	if err != nil {
		return err
	}
	spec := newContainerSpec(c)
	spec.config.User, spec.host.CapAdd, spec.host.NetworkMode = "0:0", rightsToGive, noNetwork
	spec.host.Mounts, spec.host.DeviceRequests = nil, nil
	spec.hostOwner = hostOwner(claim)
	p := place{dir: claim.Path, program: c.program(info)}
	if p.program != nil {
		p.file, _ = p.program.file() // it is copied where no directory here is ours alone
	}
	box, err := startContainer(ctx, engine, spec, p, "pygent-"+spec.id+"-owner", func(string) {}, func(sandbox.Event) {})
	if err != nil {
		return err
	}
	return errors.Join(box.giveBack(ctx), box.discard())
}

// giveBack gives the files back if the container sees the very directory that was
// claimed.
func (b *Container) giveBack(ctx context.Context) error {
	client, err := b.commands.Guest(ctx)
	if errors.Is(err, sandbox.ErrNoGuest) {
		return b.giveUpByExec(ctx, true)
	}
	if err != nil {
		return err
	}
	if !client.Info().HostOwner {
		return errNotShared
	}
	return client.Own(ctx, ".")
}

// giveBackAbandoned gives the workspaces of processes that were killed to their
// owners.
func giveBackAbandoned(ctx context.Context, engine *client.Client, c Config) {
	claims := c.Self().Abandoned()
	quiet := len(claims) > 0 && deadAreQuiet(ctx, engine, c.Self())
	for _, claim := range claims {
		err := ctx.Err()
		if err == nil {
			err = giveBack(ctx, engine, c, claim)
		}
		c.Logger.Debug("give back the workspace of a process that was killed", "workspace", claim.Path, "error", err)
		_ = claim.Release(err == nil && quiet)
	}
}

// giveUpScript gives the workspace to an owner whom the host names, in a container
// without a guest. Users may have other numbers there. Where the directory is not
// the one that the host speaks of, it says itself whom it belongs to, or the
// script fails. What has not changed since the host claimed the directory keeps its
// owner; find, which may look at whole minutes, spares the rest of the look at most files.
const giveUpScript = `here() { while read -r in out n; do [ "$1" -ge "$out" ] && [ "$1" -lt $((out + n)) ] && echo $((in + $1 - out)); done <"/proc/self/$2"; }
u= g= s=$(($5 - 60)) recent=
if [ "$(cat /proc/sys/kernel/random/boot_id) $(stat -c %d:%i .)" = "$3" ]; then s=$5 u=$(here "$1" uid_map) g=$(here "$2" gid_map); fi
o=$u:$g
if [ -z "$u" ] || [ -z "$g" ]; then $4 && o=$(stat -c %u:%g .) || exit; fi
minutes=$((($(date +%s) - s) / 60 + 2))
if find . -prune -cmin -$minutes >/dev/null 2>&1; then recent="-cmin -$minutes"; fi
export o s
find . $recent -exec sh -c 'failed=0; for f; do [ "$(stat -c %Z "$f")" -lt "$s" ] || chown -h "$o" "$f" || failed=1; done; exit $failed' sh {} +`

// giveUpByExec gives the workspace to its owner in a container without a guest. If
// only the claimed directory will do, another one is left as it is.
func (b *Container) giveUpByExec(ctx context.Context, claimed bool) error {
	h := b.spec.hostOwner
	otherwise := "true"
	if claimed {
		otherwise = "false"
	}
	cmd := []string{"/bin/sh", "-c", giveUpScript, "sh", strconv.FormatInt(h.UID, 10), strconv.FormatInt(h.GID, 10),
		fmt.Sprintf("%s %d:%d", h.Boot, h.Dev, h.Ino), otherwise, strconv.FormatInt(time.Unix(0, h.Since).Unix(), 10)}
	limit := engineTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	id, conn, err := attachExec(ctx, b, limit, container.ExecOptions{User: "0:0", WorkingDir: Workspace, Cmd: cmd, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	if _, err = io.Copy(io.Discard, conn.Reader); err != nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	result, err := b.engine.ContainerExecInspect(ctx, id)
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("giving the files to their owner ended with status %d", result.ExitCode)
	}
	return err
}
