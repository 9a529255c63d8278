package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/numeral"
)

// checkEngine looks for the engine, for all checks.
func (e *exam) checkEngine(ctx context.Context) {
	defer close(e.looked)
	c := e.cfg.Container
	if c.Docker == pygent.DockerNever {
		e.report("engine", OK, "not used: commands run on this machine, as was chosen", "")
		return
	}
	owned, err := e.cfg.WritableDirs()
	if err == nil {
		e.engine, err = docker.Connect(ctx, c.DockerHost, owned...)
	}
	if err != nil {
		state, do := Warning, "Sessions run commands on this machine and ask before each; pygent run fails without --no-docker."
		if c.Docker == pygent.DockerRequired {
			state, do = Problem, "Without --docker, a session runs commands on this machine."
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: it does not answer; restart it", pygent.ErrDockerUnavailable)
		}
		e.report("engine", state, err.Error(), do)
		return
	}
	version, err := e.engine.ServerVersion(ctx)
	if err != nil {
		e.report("engine", Problem, fmt.Sprintf("the engine at %s answers, but not about its version: %v", e.engine.DaemonHost(), err), "Restart the engine.")
		return
	}
	text := fmt.Sprintf("%s %s for %s/%s at %s", cmp.Or(version.Platform.Name, "Docker Engine"), version.Version, version.Os, version.Arch, e.engine.DaemonHost())
	if _, err := binary.Checksum(version.Arch); err != nil {
		e.report("engine", Warning, text+": pygent has no helper process for this platform", "Commands run there all the same, but start more slowly.")
		return
	}
	e.report("engine", OK, text, "")
}

// withoutEngine reports a check of the engine where there is none to ask, and whether that
// is so.
func (e *exam) withoutEngine(check, locally string) bool {
	switch {
	case e.isLocal():
		e.report(check, OK, locally, "")
	case e.engine == nil:
		e.report(check, Problem, "not checked: no engine answers", "")
	default:
		return false
	}
	return true
}

// checkImage looks for the image, and runs a command in a container of it.
func (e *exam) checkImage(ctx context.Context) {
	if e.withoutEngine("image", "not used: there is no container") {
		return
	}
	ref := cmp.Or(e.cfg.Container.Image, pygent.DefaultImage)
	info, err := e.engine.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		e.report("image", Warning, "the engine does not have "+ref, "The first session downloads it; \"docker pull "+ref+"\" does so now.")
		return
	case err != nil:
		e.report("image", Problem, fmt.Sprintf("%s: %v", ref, err), "Restart the engine, or choose another image with --image.")
		return
	}
	started := time.Now()
	if err := e.runTrue(ctx); err != nil {
		e.report("image", Problem, fmt.Sprintf("no command runs in a container of %s: %v", ref, err), "Correct that, or choose another image with --image.")
		return
	}
	e.report("image", OK, fmt.Sprintf("%s (%s); its container runs a command after %s", ref, numeral.Bytes(info.Size), numeral.Took(time.Since(started))), "")
}

// runTrue runs a command that does nothing in a container as a session has it.
func (e *exam) runTrue(ctx context.Context) (err error) {
	<-e.counted
	cfg := e.bare()
	cfg.Container.Publish = nil // a session may use the ports
	runtime, err := pygent.NewDockerRuntime(ctx, cfg.RuntimeOptions()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runtime.Cleanup()) }()
	result, err := runtime.Bash(ctx, "true")
	if err == nil && result.ExitCode != 0 {
		err = fmt.Errorf("\"true\" ended with the exit code %d: %s", result.ExitCode, strings.TrimSpace(result.Output))
	}
	return err
}

// checkNetwork says what commands reach, and looks for the network.
func (e *exam) checkNetwork(ctx context.Context) {
	if e.withoutEngine("network", "commands use the network of this machine") {
		return
	}
	c := e.cfg.Container
	switch {
	case len(c.AllowedHosts) > 0:
		hosts := slices.Clone(c.AllowedHosts)
		e.report("network", OK, "commands reach only "+numeral.Some(hosts, len(hosts), false), "")
		return
	case c.Network == "" || c.Network == "none":
		e.report("network", OK, "commands reach no host; a session asks before they reach one", "--allow-host HOST allows one.")
		return
	}
	switch found, err := docker.HasNetwork(ctx, e.engine, c.Network); {
	case err == nil && !found:
		e.report("network", Problem, "the engine has no network "+c.Network, "Create it with \"docker network create "+c.Network+"\", or choose another one with --network.")
	case err != nil:
		e.report("network", Problem, fmt.Sprintf("network %s: %v", c.Network, err), "Restart the engine.")
	default:
		e.report("network", Warning, "commands reach every host through the network "+c.Network, "--allow-host HOST in place of --network limits them to the hosts that they need.")
	}
}

// checkProtection finds out how far commands on this machine are confined.
func (e *exam) checkProtection(ctx context.Context) {
	local := e.isLocal()
	<-e.counted
	runtime, err := pygent.NewLocalRuntime(ctx, append(e.bare().RuntimeOptions(), pygent.WithDocker(pygent.DockerNever))...)
	if err != nil {
		state := Warning
		if local {
			state = Problem
		}
		e.report("protection", state, fmt.Sprintf("commands cannot run on this machine: %v", err), "")
		return
	}
	var info pygent.RuntimeInfo
	if d, ok := runtime.(pygent.Describer); ok {
		info = d.Describe(ctx)
	}
	_ = runtime.Cleanup() // of a temporary directory, which the next start removes else
	text := "of commands on this machine: " + info.Protection
	if info.ProtectionNote != "" {
		text += " (" + info.ProtectionNote + ")"
	}
	switch {
	case info.Protection == "full":
		e.report("protection", OK, text, "")
	case local:
		e.report("protection", Warning, text, "Start Docker or Podman: in a container, commands reach nothing of this machine but the workspace.")
	default:
		e.report("protection", OK, text+"; commands run in a container instead", "")
	}
}

// checkLeftovers counts what ended processes have left.
func (e *exam) checkLeftovers(ctx context.Context) {
	defer close(e.counted)
	mode := pygent.DockerRequired
	<-e.looked
	if e.engine == nil {
		mode = pygent.DockerNever
	}
	found, err := pygent.Leftovers(ctx, append(e.cfg.RuntimeOptions(), pygent.WithDocker(mode))...)
	if err != nil {
		e.report("leftovers", Warning, err.Error(), "")
		return
	}
	ours := 0
	for _, l := range found {
		if l.Ours {
			ours++
		}
	}
	switch others := len(found) - ours; {
	case ours > 0:
		e.report("leftovers", Warning, numeral.Count(ours, "leftover")+" of processes that have ended", "\"pygent prune\" shows them and asks which to remove.")
	case others > 0:
		e.report("leftovers", OK, "none of yours; "+numeral.Count(others, "leftover")+" may belong to someone else", "\"pygent prune\" shows them.")
	default:
		e.report("leftovers", OK, "none", "")
	}
}
