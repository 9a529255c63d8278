package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/tempname"
)

// guestDir is the directory in which the containers of a sandbox see their guest. An
// image that knew its name could have a link to the workspace there, or a directory with
// links, and the engine would make files where they lead.
func (s containerSpec) guestDir() string { return "/.pygent-" + s.id }

// guestPath is where a container sees the guest's program.
func (s containerSpec) guestPath() string { return s.guestDir() + "/guest" }

// socketPath is where it sees the socket for the guest, if there is one.
func (s containerSpec) socketPath() string { return s.guestDir() + "/socket" }

// errNotShared is the error of an engine that does not see our file system.
var errNotShared = errors.New("the engine does not share this machine's file system")

// place is how a container gets its workspace and its guest. An engine that
// shares our file system mounts both from here, unless there is no directory for
// the guest that is ours alone. Any other keeps the workspace in a volume, and
// the guest is copied into the container.
type place struct {
	dir     string        // the workspace on this machine
	volume  string        // the workspace's volume; empty when dir is mounted
	program *guestProgram // nil when commands run by plain exec
	file    string        // of the program, mounted from this machine; empty when it is copied
	nonce   string        // a file in dir that the guest must see; empty when that is known
	left    time.Time     // when the nonce was made, by the clock of its file system
	socket  *guestSocket  // by which the guest may reach this process; nil for none

	gitConfig     string // the system's configuration of git; empty for the image's own, as while nothing but a guest runs
	gitConfigFile string // with that, mounted from this machine; empty when it is copied with the guest

	worktrees []mount.Mount // where git looks for worktrees that the container does not see
}

// sharesFiles reports whether an engine can be expected to see our files: one
// behind a socket may, one behind a network does not.
func sharesFiles(engine *client.Client) bool {
	host := engine.DaemonHost()
	return strings.HasPrefix(host, "unix:") || strings.HasPrefix(host, "npipe:")
}

// apply completes the description of a container for this place.
func (p place) apply(spec containerSpec) containerSpec {
	mounts := []mount.Mount{p.workspaceAt(Workspace)}
	if spec.view.own != "" {
		mounts = append(mounts, p.workspaceAt(spec.view.own))
	}
	if p.volume == "" {
		mounts = append(append(mounts, spec.view.repository...), p.worktrees...)
	}
	spec.host.Mounts = append(mounts, spec.host.Mounts...)
	p.applyGitConfig(&spec)
	if p.program == nil {
		return spec
	}
	// An anonymous volume goes with its container.
	program := mount.Mount{Type: mount.TypeVolume, Target: spec.guestDir(), VolumeOptions: &mount.VolumeOptions{Labels: spec.config.Labels}}
	if p.file != "" {
		program = mount.Mount{Type: mount.TypeBind, Source: p.file, Target: spec.guestPath(), ReadOnly: true}
	}
	spec.host.Mounts = append(spec.host.Mounts, program)
	spec.config.Entrypoint = []string{spec.guestPath()}
	if p.socket != nil { // to which one can connect even so, but not change its mode or attributes
		socket := mount.Mount{Type: mount.TypeBind, Source: p.socket.path, Target: spec.socketPath(), ReadOnly: true}
		spec.host.Mounts = append(spec.host.Mounts, socket)
		spec.config.Entrypoint = append(spec.config.Entrypoint, spec.socketPath())
	}
	return spec
}

// workspaceAt mounts the workspace.
func (p place) workspaceAt(target string) mount.Mount {
	if p.volume != "" {
		return mount.Mount{Type: mount.TypeVolume, Source: p.volume, Target: target, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
	}
	return mount.Mount{Type: mount.TypeBind, Source: p.dir, Target: target}
}

// applyGitConfig has git read its configuration, if the container gets it.
func (p place) applyGitConfig(spec *containerSpec) {
	switch {
	case p.gitConfig == "":
		return
	case p.gitConfigFile != "":
		spec.host.Mounts = append(spec.host.Mounts, mount.Mount{Type: mount.TypeBind, Source: p.gitConfigFile, Target: spec.gitConfigPath(), ReadOnly: true})
	case p.program == nil || p.file != "":
		return // there is nowhere to copy it
	}
	spec.config.Env = append(slices.Clip(spec.config.Env), "GIT_CONFIG_SYSTEM="+spec.gitConfigPath())
}

// deliver copies the guest into a created container that cannot mount it.
func (p place) deliver(ctx context.Context, b *Container) error {
	if p.file != "" || p.program == nil {
		return nil
	}
	guest, err := p.program.bytes()
	if err != nil {
		return err
	}
	if err = b.send(ctx, b.spec.guestPath(), 0o755, guest); err == nil && p.gitConfig != "" && p.gitConfigFile == "" {
		err = b.send(ctx, b.spec.gitConfigPath(), 0o644, []byte(p.gitConfig))
	}
	return err
}

// send copies a file to a container that does not run yet.
func (b *Container) send(ctx context.Context, to string, mode int64, data []byte) error {
	archive, err := tarOf(path.Base(to), mode, data)
	if err != nil {
		return err
	}
	err = askFor(ctx, b.engine, sendTimeout, func(ctx context.Context) error {
		return b.engine.CopyToContainer(ctx, b.name, path.Dir(to), archive, container.CopyToContainerOptions{})
	})
	if err != nil {
		return fmt.Errorf("copy %s into the container: %w", path.Base(to), err)
	}
	return nil
}

// tarOf returns an archive of one file, or, with nil data, of a directory.
func tarOf(name string, mode int64, data []byte) (*bytes.Buffer, error) {
	h := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}
	if data == nil {
		h.Name, h.Typeflag = name+"/", tar.TypeDir
	}
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	err := w.WriteHeader(h)
	if err == nil {
		_, err = w.Write(data)
	}
	return b, errors.Join(err, w.Close())
}

// missing reports whether a container could not be created because the engine
// does not find the workspace, the guest or git's configuration. It may see them, and not
// the socket.
func (p place) missing(err error) bool {
	if p.volume != "" || p.socket != nil && p.socket.isNamed(err) {
		return false
	}
	text := err.Error()
	return (strings.Contains(text, "bind source path does not exist") || strings.Contains(text, "no such file or directory")) &&
		(strings.Contains(text, p.dir) || strings.Contains(text, "guest-") || p.gitConfigFile != "" && strings.Contains(text, p.gitConfigFile))
}

// leaveNonce puts a file into the workspace by which a guest proves that it
// sees the same directory, and returns a function that removes it.
func (p *place) leaveNonce() (remove func() error, err error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return nil, fmt.Errorf("probe the workspace: %w", err)
	}
	defer root.Close()
	tempname.Sweep(root)
	f, err := tempname.Create(root, ".", 0o644)
	if err != nil {
		return nil, fmt.Errorf("make a file in the workspace %s: %w; commands need a directory that can be written to", p.dir, patherr.Cause(err))
	}
	p.nonce = f.Name()
	name := filepath.Join(p.dir, p.nonce)
	_, err = f.WriteString(p.nonce)
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("make a file in the workspace %s: %w; commands need a directory that can be written to", p.dir, patherr.Cause(err)), os.Remove(name), f.Close())
	}
	p.left = info.ModTime()
	return func() error { return errors.Join(os.Remove(name), f.Close()) }, nil // the name may be of a directory that has moved
}

// newVolume makes the volume of a workspace, which anyone in the container may
// write, as with a mounted workspace.
func (c *commander) newVolume(ctx context.Context) error {
	name := owner.NamePrefix + c.spec.id
	holds := owner.HoldsNothing
	if c.keep {
		holds = owner.HoldsWorkspace
	}
	labels := c.spec.self.Prove(owner.Volume, name, c.spec.self.Labels(c.spec.id, holds))
	err := askWhole(ctx, c.engine, "volume "+name, func(ctx context.Context) error {
		_, err := c.engine.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels})
		return err
	}, func(ctx context.Context) error { return removeVolume(ctx, c.engine, name, true) })
	if err != nil {
		return fmt.Errorf("create a volume for the workspace: %w", err)
	}
	c.volume = name
	if err := c.openVolume(ctx, name); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patienceAfter(ctx, err))
		defer cancel()
		return errors.Join(err, c.removeVolume(ctx))
	}
	return nil
}

// removeVolume removes the volume of the workspace, if there is one.
func (c *commander) removeVolume(ctx context.Context) error {
	if c.volume == "" {
		return nil
	}
	if err := removeVolume(ctx, c.engine, c.volume, true); err != nil {
		return fmt.Errorf("remove the workspace's volume %s: %w", c.volume, engineWords(ctx, err))
	}
	c.volume = ""
	return nil
}

// removeSaved removes the volume of a workspace with which nothing is lost, and
// notes that where it cannot: a later process may remove it then.
func (c *commander) removeSaved(ctx context.Context) error {
	err := c.removeVolume(ctx)
	if err != nil && ctx.Err() == nil {
		// An engine gives up at directories that are nested too deeply for paths.
		if emptied := c.giveUpAsRoot(ctx, true); emptied == nil {
			err = c.removeVolume(ctx)
		}
	}
	if err != nil {
		_ = c.spec.self.MarkSaved(c.volume) // without the note it is shown and asked for
	}
	return err
}

// openVolume makes the root of a new volume writable for any user of the
// container. Only the engine can: it takes a container that never runs.
func (c *commander) openVolume(ctx context.Context, name string) error {
	b := newContainer(c.engine, c.spec, "pygent-"+c.spec.id+"-volume", c.emit)
	b.spec.host = container.HostConfig{
		NetworkMode: "none",
		Mounts:      []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: Workspace, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
	}
	b.spec.config.Entrypoint = []string{b.spec.guestPath()}
	if err := b.create(ctx); err != nil {
		return errors.Join(err, b.discardAfter(ctx, err))
	}
	archive, err := tarOf(strings.TrimPrefix(Workspace, "/"), 0o777, nil)
	if err == nil {
		err = ask(ctx, c.engine, func(ctx context.Context) error {
			return c.engine.CopyToContainer(ctx, b.name, "/", archive, container.CopyToContainerOptions{})
		})
	}
	return errors.Join(err, b.discardWithin(patienceAfter(ctx, err)))
}
