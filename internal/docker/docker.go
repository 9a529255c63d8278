// Package docker runs the commands of a sandbox in a container of a Docker engine:
// it finds the engine and the image, starts one container at a time with our
// guest in it, and starts another where that has died. It also finds and removes
// what processes left on an engine that ended too early for that. The root makes
// its runtimes of it.
package docker

import (
	"context"
	"errors"

	"github.com/x/pygent/internal/sandbox"
)

// Workspace is where commands in a container see the workspace.
const Workspace = "/workspace"

// noNetwork is the network of a container that has none.
const noNetwork = "none"

var (
	// ErrUnavailable is returned when no engine answers.
	ErrUnavailable = errors.New("no Docker engine answers")
	// ErrLost is returned while it is not known whether the last container still
	// runs, because its engine does not answer. It can pass.
	ErrLost = errors.New("the last container may still run")
	// ErrCleanupIncomplete is returned by Cleanup when the engine did not remove
	// what runs there. Nothing else is amiss.
	ErrCleanupIncomplete = errors.New("something is left on the engine")
)

// Config is what a sandbox in containers is made of.
type Config struct {
	sandbox.Config

	Host    string // the engine's address, where somebody named one
	Image   string
	Network string                // "none", "bridge", "host" or a network's name
	Hosts   sandbox.NetworkConfig // what may be reached where the network is none

	Memory       int64 // bytes, without swap beyond
	CPUs         float64
	Pids         int64
	User         string // the image's when empty
	Capabilities []string
	ReadOnlyRoot bool
	Mounts       []Mount
	GPUs         string // as for CheckGPUs
	SharedFiles  *bool  // whether the engine sees our files; nil asks its address
	NoGuest      bool   // commands run by plain exec, as on a platform without a guest
	NoSocket     bool   // guests use stdin and stdout, as where they cannot reach a socket of ours
}

// Mount is a file or directory of the engine's machine that a container sees.
type Mount struct {
	Source   string // a path that exists
	Target   string // an absolute path in the container
	ReadOnly bool
}

// New makes a sandbox whose commands run in a container. The container is started
// in the background: what goes wrong there is returned by the first command, and
// the next one tries again. New takes over the engine's client, in case of an
// error too. ctx bounds the copying of the initial files.
func New(ctx context.Context, engine *Engine, config Config) (*sandbox.Sandbox, error) {
	if err := checkWorkspace(config.Workspace); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	var network *sandbox.Network
	if config.Network == noNetwork {
		var err error
		if network, err = sandbox.OpenNetwork(config.Hosts, config.Events); err != nil {
			return nil, errors.Join(err, engine.Close())
		}
	}
	claim := claimWorkspace(ctx, engine, config)
	repository := sandbox.FindRepository(config.Config)
	w, err := sandbox.OpenWorkspace(ctx, config.Config, true, Workspace)
	if err != nil {
		return nil, errors.Join(err, claim.Release(claim.Fresh()), engine.Close())
	}
	c := newCommander(config, engine, w, network.Way())
	c.claim, c.spec.hostOwner = claim, hostOwner(claim)
	c.see(ctx, w.Tree.Dir(), repository)
	c.mu.Lock()
	c.begin()
	c.wg.Go(func() { sweepEngine(c.life, engine, config) })
	c.mu.Unlock()
	inside := config.Config // a copy: the sweep reads config at the same time
	inside.Env = append(containerEnv(config), config.Env...)
	return sandbox.New(sandbox.Parts{Workspace: w, Files: c.files, Commands: c, Network: network, Git: repository, GitTrust: "*", Notes: c.notes, At: c.spec.view.begin}, inside)
}
